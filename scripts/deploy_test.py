#!/usr/bin/env python3
"""The files of deploy/container and deploy/kubernetes without a cluster: that they agree with each other, with
docs/ and with what the programs do. Whether their flags exist is what page_commands.py asks."""
import glob
import json
import os
import re
import tempfile
import unittest

import yaml

import deploy_files
import page_commands

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")


def read(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as file:
        return file.read()


class Known:
    """A program with these options."""

    def __init__(self, *options):
        self.known = set(options)

    def problem(self, words, options):
        return next((f"no {one}" for one in options if one not in self.known), None)

    def options(self):
        return self.known


class Commands(unittest.TestCase):
    def problems(self, name, text):
        tools = {"shoal": Known("--wait"), "shoal-agent": Known("--name"), "shoal-coordinator": Known("--http")}
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, name)
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
            return list(page_commands.problems(path, tools))

    def test_unknown_options_are_found(self):
        for name, text, line in (
                ("a.yaml", "spec:\n  containers:\n    - image: registry:5000/shoal-agent-pytorch:1\n"
                           "      args:\n        - --name=$(POD_NAME)\n        - --nam=x\n", 5),
                ("a.yaml", "image: shoal-agent\ncommand: [shoal-agent, --nam]\n", 2),
                ("a.yaml", "preStop:\n  exec:\n    command: [sh, -c, 'test -z x || shoal agent drain --nam']\n", 3),
                ("compose.yaml", "services:\n  a:\n    image: shoal-agent:1\n    build: {}\n"
                                 "    command: --name=x --nam=y\n", 5),
                ("Dockerfile", 'FROM x\nENTRYPOINT ["shoal-agent", "--name", "x"]\n'
                               'RUN a \\\n && shoal-coordinator --nam\n', 3)):
            found = self.problems(name, text)
            self.assertEqual([number for number, _ in found], [line], (text, found))
            self.assertTrue(found[0][1].startswith("no --nam"), found)

    def test_known_options_are_no_problem(self):
        self.assertEqual(self.problems("a.yaml", "image: shoal-agent\nargs: [--name=x]\n---\nother: [1]\n"), [])

    def test_the_files_start_our_programs(self):
        started = {}
        for path in ("container/Dockerfile", "container/compose.yaml", "kubernetes/coordinator.yaml",
                     "kubernetes/agents.yaml"):
            started[path] = " ".join(text for _, text in deploy_files.commands_in(f"{ROOT}/deploy/{path}"))
        for path, program in (("container/Dockerfile", "shoal-agent --data-dir"),
                              ("container/compose.yaml", "shoal-coordinator --host-name=coordinator"),
                              ("kubernetes/coordinator.yaml", "shoal-coordinator --host-name="),
                              ("kubernetes/agents.yaml", "shoal agent drain")):
            self.assertIn(program, started[path])


class Manifests(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.kustomization = yaml.safe_load(read("deploy/kubernetes/kustomization.yaml"))
        cls.all = [one for name in cls.kustomization["resources"]
                   for one in yaml.safe_load_all(read(f"deploy/kubernetes/{name}"))]
        cls.sets = cls.of_kind("StatefulSet")

    @classmethod
    def of_kind(cls, kind):
        return {one["metadata"]["name"]: one for one in cls.all if one["kind"] == kind}

    def pods(self):
        for name, one in self.sets.items():
            pod = one["spec"]["template"]["spec"]
            self.assertEqual(len(pod["containers"]), 1)
            yield name, one, pod, pod["containers"][0]

    def test_every_file_is_applied(self):
        files = {os.path.basename(path) for path in glob.glob(f"{ROOT}/deploy/kubernetes/*.yaml")}
        self.assertEqual(files, {*self.kustomization["resources"], "kustomization.yaml", "restore.yaml"})

    def test_images_are_targets_of_the_dockerfile(self):
        targets = set(re.findall(r"^FROM \S+ AS (\S+)", read("deploy/container/Dockerfile"), re.M)) - {"base"}
        images = {one["name"] for one in self.kustomization["images"]}
        self.assertEqual({container["image"] for _, _, _, container in self.pods()}, images)
        self.assertLessEqual({name.removeprefix("shoal-") for name in images}, targets)
        services = yaml.safe_load(read("deploy/container/compose.yaml"))["services"]
        for one in services.values():
            self.assertEqual(one["image"].split(":")[0], "shoal-" + one["build"]["target"])
            self.assertIn(one["build"]["target"], targets)
        version = re.search(r"^project\(shoal VERSION (\S+)", read("CMakeLists.txt"), re.M)[1]
        tags = {one["newTag"] for one in self.kustomization["images"]}
        tags |= {one["image"].split(":")[1] for one in services.values()}
        tags |= set(re.findall(r"shoal-(?:coordinator|agent|agent-pytorch):(\S+)", read("docs/containers.md")))
        self.assertEqual(tags, {version})

    def test_users_are_those_of_the_images(self):
        numbers = dict(re.findall(r"--uid (\d+) .* (shoal-\S+) *\\", read("deploy/container/Dockerfile")))
        for name, _, pod, _ in self.pods():
            self.assertEqual(numbers[str(pod["securityContext"]["runAsUser"])], name)

    def test_pods_meet_the_standard_of_their_namespace(self):
        labels = self.of_kind("Namespace")["shoal"]["metadata"]["labels"]
        self.assertEqual(labels["pod-security.kubernetes.io/enforce"], "restricted")
        for _, _, pod, container in self.pods():
            own = container["securityContext"]
            self.assertTrue(pod["securityContext"]["runAsNonRoot"])
            self.assertEqual(pod["securityContext"]["seccompProfile"], {"type": "RuntimeDefault"})
            self.assertEqual(own["capabilities"], {"drop": ["ALL"]})
            self.assertIs(own["allowPrivilegeEscalation"], False)
            self.assertTrue(own["readOnlyRootFilesystem"])
            for volume in pod["volumes"]:
                self.assertEqual(len(volume.keys() & {"emptyDir", "persistentVolumeClaim", "configMap", "secret"}), 1)

    def test_kubernetes_leaves_the_key_of_the_ca_private(self):
        """With fsGroup and the default policy, kubelet gives the group rights to each file at each start."""
        for name, _, pod, _ in self.pods():
            context = pod["securityContext"]
            if "fsGroup" in context:
                self.assertEqual(context.get("fsGroupChangePolicy"), "OnRootMismatch", name)

    def test_what_is_written_is_mounted(self):
        for _, one, pod, container in self.pods():
            volumes = {volume["name"] for volume in pod["volumes"]}
            volumes |= {claim["metadata"]["name"] for claim in one["spec"].get("volumeClaimTemplates", [])}
            mounts = {mount["mountPath"]: mount["name"] for mount in container["volumeMounts"]}
            self.assertEqual(set(mounts.values()), volumes)
            self.assertLessEqual({"/var/lib/shoal", "/tmp"}, mounts.keys())

    def test_one_coordinator_on_one_volume(self):
        spec = self.sets["shoal-coordinator"]["spec"]
        self.assertEqual(spec["replicas"], 1)
        self.assertEqual([claim["spec"]["accessModes"] for claim in spec["volumeClaimTemplates"]], [["ReadWriteOnce"]])

    def test_a_backup_is_put_into_the_volume_of_the_coordinator(self):
        pod = yaml.safe_load(read("deploy/kubernetes/restore.yaml"))
        coordinator = self.sets["shoal-coordinator"]["spec"]
        claim = f'{coordinator["volumeClaimTemplates"][0]["metadata"]["name"]}-shoal-coordinator-0'
        self.assertIn({"persistentVolumeClaim": {"claimName": claim}, "name": "state"}, pod["spec"]["volumes"])
        own, other = pod["spec"]["containers"][0], self.container("shoal-coordinator")
        for field in ("securityContext", "volumeMounts"):
            self.assertEqual(own[field], other[field])
        self.assertEqual(pod["spec"]["securityContext"], coordinator["template"]["spec"]["securityContext"])
        self.assertEqual(own["image"], f'shoal-coordinator:{self.kustomization["images"][0]["newTag"]}')
        self.assertEqual(pod["metadata"]["namespace"], self.kustomization["namespace"])

    def test_services_and_policies_name_pods_and_ports(self):
        pods = {name: one["spec"]["template"]["metadata"]["labels"] for name, one in self.sets.items()}
        services = self.of_kind("Service")
        for name, one, _, container in self.pods():
            self.assertEqual(one["spec"]["selector"]["matchLabels"], pods[name])
            service = services[one["spec"]["serviceName"]]["spec"]
            self.assertEqual(service["selector"], pods[name])
            ports = {port["name"]: port["containerPort"] for port in container["ports"]}
            for port in service.get("ports", []):
                self.assertEqual(ports[port["targetPort"]], port["port"])
        policies = self.of_kind("NetworkPolicy")
        self.assertEqual(policies.keys(), pods.keys())
        for name, policy in policies.items():
            self.assertEqual(policy["spec"]["podSelector"]["matchLabels"], pods[name])
            for rule in policy["spec"]["ingress"]:
                for source in rule.get("from", []):
                    self.assertIn(source["podSelector"]["matchLabels"], pods.values())
        self.assertEqual(self.ports_of(policies["shoal-coordinator"]), {(7070, 7070), (7071, 7071)})

    @staticmethod
    def ports_of(policy):
        return {(port["port"], port.get("endPort", port["port"]))
                for rule in policy["spec"]["ingress"] for port in rule["ports"]}

    def test_ports_are_the_defaults_of_the_programs(self):
        flags = dict(re.findall(r"^\| `(--[a-z-]+)` \| `([^`]*)`", read("docs/operations.md"), re.M))
        first, last = map(int, flags["--peer-ports"].split("-"))
        self.assertEqual(self.ports_of(self.of_kind("NetworkPolicy")["shoal-agent"]), {(first, last)})
        self.assertIn(f"EXPOSE {first}-{last}\n", read("deploy/container/Dockerfile"))
        ports = [port["containerPort"] for port in self.container("shoal-coordinator")["ports"]]
        self.assertEqual([f"127.0.0.1:{port}" for port in ports], [flags["--http"], flags["--grpc"]])

    def container(self, name):
        return self.sets[name]["spec"]["template"]["spec"]["containers"][0]

    def test_certificates_have_the_name_that_agents_dial(self):
        names = [one.partition("=")[2] for one in self.container("shoal-coordinator")["args"]]
        agent = self.container("shoal-agent")
        self.assertIn("--coordinator=shoal-coordinator:7071", agent["args"])
        address = next(one["value"] for one in agent["env"] if one["name"] == "SHOAL_ADDR")
        self.assertEqual(address, "https://shoal-coordinator:7070")
        self.assertIn("shoal-coordinator", names)
        self.assertIn("shoal-coordinator", self.of_kind("Service"))

    def test_probes_are_served(self):
        served = set(json.loads(read("api/openapi.json"))["paths"])
        container = self.container("shoal-coordinator")
        probes = {key: one["httpGet"] for key, one in container.items() if key.endswith("Probe")}
        self.assertEqual(probes.keys(), {"startupProbe", "livenessProbe", "readinessProbe"})
        for probe in probes.values():
            self.assertIn(probe["path"], served)
            self.assertEqual((probe["port"], probe["scheme"]), ("http", "HTTPS"))
        path = re.search(r"http://127.0.0.1:7070(/\w+)", read("deploy/container/Dockerfile"))[1]
        self.assertIn(path, served)

    def test_a_drain_ends_before_the_pod(self):
        pod = self.sets["shoal-agent"]["spec"]["template"]["spec"]
        command = " ".join(self.container("shoal-agent")["lifecycle"]["preStop"]["exec"]["command"])
        self.assertGreaterEqual(pod["terminationGracePeriodSeconds"],
                                int(re.search(r"--timeout (\d+)", command)[1]) + 30)

    def test_the_page_makes_every_secret(self):
        page = read("docs/containers.md")
        for _, _, _, container in self.pods():
            for one in container.get("env", []):
                secret = one.get("valueFrom", {}).get("secretKeyRef")
                if secret:
                    self.assertRegex(page, rf"create secret generic {secret['name']}\b.*{secret['key']}=")


if __name__ == "__main__":
    unittest.main()
