// The tree of commands. Options are bound here and nowhere else; what a command does is in the
// files that commands.h and up_command.h name. --addr and --json may stand anywhere in the line.
#include <algorithm>
#include <cstdlib>
#include <functional>
#include <string>

#include <CLI/CLI.hpp>
#include <unistd.h>

#include "base/arguments.h"
#include "base/number_text.h"
#include "cli/command_words.h"
#include "cli/commands/commands.h"
#include "cli/completion.h"
#include "cli/flags.h"
#include "cli/format.h"
#include "cli/terminal.h"
#include "cli/up_command.h"
#include "job/job_spec.h"

namespace shoal::cli {
namespace {

struct Common {
  Wanted wanted;
  bool json = false;
  Context context() const {
    Chosen chosen = choose_coordinator(wanted);
    return {Api(chosen.addr, SHOAL_VERSION, std::move(chosen.credentials)), json};
  }
};

using Action = std::function<Result<int>()>;

CLI::Validator number_within(double least, double most) {
  return {[=](const std::string& text) { return number_problem(text, least, most); }, ""};
}

constexpr double kNumberMax = 1e9;      // the coordinator checks the exact range
constexpr std::size_t kNamesMax = 500;  // the newest names, offered to a shell

// The chosen command's action is called after the whole line was read.
class Tree {
 public:
  Tree() : app_("Shoal trains one model on many unequal GPUs over slow links.", "shoal") {
    app_.require_subcommand(1);
    take_common(&app_);
    add_up();
    add_jobs();
    add_lists();
    add_machines();
    add_people();
    add_logs();
    add_datasets();
    add_files();
    add_checkpoints();
    add_generate();
    add_tokenizers();
    add_admin();
    add_version();
    add_completion();
    app_.footer(
        "Environment: SHOAL_ADDR, SHOAL_TOKEN, SHOAL_TOKEN_FILE, SHOAL_CA, SHOAL_OUTBOUND_PROXY, "
        "NO_COLOR. "
        "Exit codes: docs/cli.md.");
  }

  int run(int argc, char** argv) {
    if (argc > 1 && std::string(argv[1]) == "__complete") return offer({argv + 2, argv + argc});
    if (const Status given = check_arguments(argc, argv, environ); !given.ok())
      return report(given.error());
    try {
      app_.parse(reversed(split_empty_values({argv + 1, argv + argc})));
    } catch (const CLI::ParseError& error) {
      if (error.get_exit_code() == 0) return app_.exit(error);  // --help
      return refuse(error, argc, argv);
    }
    const Result<int> done = action_();
    return done.ok() ? *done : report(done.error());
  }

 private:
  static int report(const Error& error) {
    const bool color = terminal().stderr_color;
    const bool calm = error.code == Code::kCancelled;
    say(paint(calm ? "shoal: " : "error: ", calm ? Color::kNone : Color::kRed, color) +
        (error.field.empty() ? "" : error.field + ": ") + error.message);
    if (!error.remedy.empty()) say("hint: " + error.remedy);
    return exit_code_of(error.code);
  }

  CLI::App* group(const std::string& name, const std::string& what) {
    CLI::App* made = app_.add_subcommand(name, what);
    made->require_subcommand(1);
    take_common(made);
    return made;
  }

  void take_common(CLI::App* command) {
    command->add_option("--addr", common_.wanted.addr,
                        "coordinator, http(s)://host:port (or SHOAL_ADDR) [the context's]");
    command->add_option("--token-file", common_.wanted.token_file,
                        "file with your token (or SHOAL_TOKEN_FILE) [the context's token]");
    command->add_option("--ca", common_.wanted.ca,
                        "file with the CA of the coordinator's certificate (or SHOAL_CA)");
    command->add_flag("--insecure-http", common_.wanted.clear_allowed,
                      "send the token over plain HTTP to another host, too");
    command->add_flag("--json", common_.json, "for machines: the objects of the REST API");
  }

  CLI::App* leaf(CLI::App* parent, const std::string& name, const std::string& what,
                 Action action) {
    CLI::App* made = parent->add_subcommand(name, what);
    take_common(made);
    made->callback([this, action = std::move(action)] { action_ = action; });
    return made;
  }

  void add_up() {
    CLI::App* up =
        leaf(&app_, "up", "run a coordinator and N agents on this host, to try Shoal out",
             [this] { return run_up(up_, common_.json); });
    add_up_flags(*up, up_);
    CLI::App* down = leaf(&app_, "down", "stop what `shoal up --detach` left running",
                          [this] { return run_down(up_.data_dir, common_.json); });
    down->add_option("--data-dir", up_.data_dir, "the folder given to `shoal up`");
  }

  void add_submit_options(CLI::App* command) {
    command->add_option("FILE", submit_.file, "job file (TOML; .json works too), - for stdin")
        ->required();
    take_changes(command, submit_.changes, "use this name instead of the one in the file");
    command->add_option("--from", submit_.from,
                        "begin from the weights of a checkpoint, or a job's newest one");
    command->add_option("--code", submit_.code,
                        "folder with the program of the job (trainer.entry), sent with it");
  }

  static void take_changes(CLI::App* command, JobFileChanges& changes, const char* name_help) {
    command->add_option("--name", changes.name, name_help)
        ->check(CLI::Validator(
            [](std::string& text) { return text.empty() ? "must not be empty" : std::string(); },
            ""));
    command
        ->add_option("--set", changes.sets,
                     "change one field, any number of times: train.lr=0.0005")
        ->take_all()
        ->expected(1)
        ->allow_extra_args(false);
  }

  void add_jobs_again(CLI::App* job) {
    CLI::App* clone = leaf(job, "clone", "start a new job from the text of another one",
                           [this] { return job_clone(common_.context(), again_); });
    clone->add_option("JOB", again_.job, "name or id")->required();
    take_changes(clone, again_.changes, "name of the new job [JOB-2, or the next that is free]");
    CLI::App* restart =
        leaf(job, "restart", "start a new job from the text and a checkpoint of an ended one",
             [this] { return job_restart(common_.context(), again_); });
    restart->add_option("JOB", again_.job, "name or id")->required();
    restart->add_option("--from", again_.from, "a checkpoint, or another job [JOB's newest]");
    restart->add_flag("--weights-only", again_.weights_only,
                      "begin at step 0, with the weights alone, instead of continuing");
    take_changes(restart, again_.changes, "name of the new job [that of JOB]");
    take_name(leaf(job, "rm", "remove a job that has ended, with its checkpoints and its history",
                   [this] { return job_rm(common_.context(), name_); }),
              "JOB");
  }

  void add_jobs() {
    CLI::App* job = group("job", "submit and follow training jobs");
    add_submit_options(leaf(job, "validate",
                            "check a job file with the coordinator, without starting it",
                            [this] { return job_validate(common_.context(), submit_); }));
    add_submit_options(leaf(job, "plan",
                            "show where a job would be placed now, and how fast it would be",
                            [this] { return job_plan(common_.context(), submit_); }));
    CLI::App* submit = leaf(job, "submit", "start a job",
                            [this] { return job_submit(common_.context(), submit_); });
    add_submit_options(submit);
    auto* wait =
        submit->add_flag("--wait", submit_.wait, "follow it to its end; exit code 9 when it fails");
    submit->add_option("--timeout", submit_.timeout_s, "seconds to wait with --wait")
        ->check(number_within(0, kNumberMax))
        ->needs(wait);
    CLI::App* jobs =
        leaf(job, "ls", "list all jobs", [this] { return job_ls(common_.context(), search_); });
    jobs->add_option("--search", search_, "only jobs with this text in their name or description");
    CLI::App* get = leaf(job, "get", "show one job",
                         [this] { return job_get(common_.context(), name_, why_); });
    take_name(get, "JOB");
    get->add_flag("--why", why_, "also what limits its placement, and which move was considered");
    take_name(leaf(job, "spec", "print what was submitted, as it was written",
                   [this] { return job_spec(common_.context(), name_); }),
              "JOB");
    take_name(leaf(job, "topology", "show its replicas by stage, and the traffic of its links",
                   [this] { return job_topology(common_.context(), name_); }),
              "JOB");
    CLI::App* watch = leaf(job, "watch", "follow a job to its end; Ctrl-C detaches", [this] {
      return job_watch(common_.context(), name_, submit_.timeout_s);
    });
    take_name(watch, "JOB");
    watch->add_option("--timeout", submit_.timeout_s, "stop watching after this many seconds")
        ->check(number_within(0, kNumberMax));
    CLI::App* set = leaf(job, "set", "change a running job",
                         [this] { return job_set(common_.context(), name_, changes_); });
    take_name(set, "JOB");
    set->add_option("--outer-lr", changes_.outer_lr,
                    "the new outer learning rate, from the next freeze on")
        ->check(number_within(0, kNumberMax));
    set->add_option("--priority", changes_.priority,
                    "1 to 99; higher ones get devices first; above 50 only for operators")
        ->check(CLI::Range(kPriorityMin, kPriorityMax));
    take_name(
        leaf(job, "cancel", "end a job", [this] { return job_cancel(common_.context(), name_); }),
        "JOB");
    add_wait(leaf(job, "pause", "finish the open round, keep its state, release all devices",
                  [this] { return job_pause(common_.context(), name_, wait_); }),
             "JOB", "until it is paused");
    add_wait(leaf(job, "resume", "continue from the committed round",
                  [this] { return job_resume(common_.context(), name_, wait_); }),
             "JOB", "until it trains");
    add_jobs_again(job);
  }

  void add_wait(CLI::App* leaf, const char* shown, const char* help) {
    take_name(leaf, shown);
    auto* wait = leaf->add_flag("--wait", wait_.wait, help);
    leaf->add_option("--timeout", wait_.timeout_s, "seconds to wait with --wait")
        ->check(number_within(0, kNumberMax))
        ->needs(wait);
  }

  void add_lists() {
    CLI::App* agent = group("agent", "the hosts that train");
    CLI::App* agents = leaf(agent, "ls", "list all agents",
                            [this] { return agent_ls(common_.context(), with_gone_); });
    agents->add_flag("--gone", with_gone_, "include agents that are gone");
    take_name(leaf(agent, "get", "show one agent",
                   [this] { return agent_get(common_.context(), name_); }),
              "AGENT");
    leaf(agent, "doctor", "show what cannot be reached, from where, and what to open",
         [this] { return agent_doctor(common_.context()); });
    const auto verb = [&](const char* word, const char* help) {
      const auto act = [this, word] {
        return agent_command(common_.context(), name_, word, wait_);
      };
      return leaf(agent, word, help, act);
    };
    take_name(verb("cordon", "give it no new replicas"), "AGENT");
    add_wait(verb("drain", "give it no new replicas and release those it has"), "AGENT",
             "until it holds no replica");
    take_name(verb("uncordon",
                   "put it back into service; also ends a quarantine and forgets refused memory"),
              "AGENT");
    take_name(leaf(agent, "rm", "forget an agent that is gone",
                   [this] { return agent_rm(common_.context(), name_); }),
              "AGENT");
    take_name(leaf(agent, "revoke", "end its session and refuse its certificate from now on",
                   [this] { return agent_revoke(common_.context(), name_); }),
              "AGENT");
    add_rounds();
    leaf(&app_, "network", "the lines between agents: direct or relayed, and how fast",
         [this] { return cli::network(common_.context()); });
    CLI::App* events = leaf(&app_, "events", "what happened in the cluster",
                            [this] { return cli::events(common_.context(), events_); });
    events->add_flag("-f,--follow", events_.follow, "keep printing new events");
    events->add_option("--last", events_.last, "how many of the newest [50]")
        ->check(CLI::Range(1, 100'000));
    events->add_option("--level", events_.level, "least severity to show: info, warning, error")
        ->check(CLI::IsMember({"info", "warning", "error"}));
    events->add_option("--job", events_.job, "only events of this job: name or id");
    events->add_option("--agent", events_.agent, "only events of this agent: name or id");
  }

  void add_rounds() {
    CLI::App* round = group("round", "the outer steps of a job");
    take_name(leaf(round, "ls", "list all rounds of a job",
                   [this] { return round_ls(common_.context(), name_); }),
              "JOB");
    CLI::App* get =
        leaf(round, "get", "show one round: what it waits for, and what each member contributed",
             [this] { return round_get(common_.context(), name_, round_); });
    take_name(get, "JOB");
    get->add_option("ROUND", round_, "its number [the newest]");
  }

  void add_machines() {
    CLI::App* token = group("token", "tokens for hosts that join, and for people");
    CLI::App* create = leaf(token, "create", "make a token; it is shown once",
                            [this] { return token_create(common_.context(), token_); });
    auto* join = create->add_flag("--join", token_.join, "make a token that hosts join with");
    create->add_option("--uses", token_.uses, "how many hosts may join with it [1]")
        ->check(CLI::Range(1, 100'000))
        ->needs(join);
    create->add_option("--name", token_.name, "its owner, who owns the jobs that it submits")
        ->excludes(join);
    create
        ->add_option("--scope", token_.scope,
                     "admin, operator, submitter, viewer or metrics; several with commas")
        ->excludes(join);
    create->add_option("--ttl", token_.ttl,
                       "how long it is valid: 30m, 1h, 2d [1h to join, else 30d]");
    leaf(token, "ls", "list all tokens, without their secrets",
         [this] { return token_ls(common_.context()); });
    leaf(token, "rm", "revoke a token: no host can join and nobody can log in with it",
         [this] { return token_rm(common_.context(), name_); })
        ->add_option("TOKEN", name_, "id (join_3, tok_3)")
        ->required();
    CLI::App* ca = group("ca", "the certificate authorities that the cluster trusts");
    leaf(ca, "ls", "list the CAs, and how many agents have a certificate of each",
         [this] { return ca_ls(common_.context()); });
    leaf(ca, "rotate", "replace the CA; the old one is trusted for two more weeks",
         [this] { return ca_rotate(common_.context()); });
  }

  void add_people() {
    CLI::App* login =
        leaf(&app_, "login", "store your token for a coordinator, and use that one", [this] {
          login_.wanted = common_.wanted;
          return cli::login(login_, common_.json);
        });
    login->add_option("ADDR", login_.addr, "coordinator, https://host:port")->required();
    login->add_option("--name", login_.name, "name of the context [the host's]");
    leaf(&app_, "link", "print a link that logs a browser in once",
         [this] { return cli::link(common_.context()); });
    leaf(&app_, "audit", "who changed what",
         [this] { return cli::audit(common_.context(), last_); })
        ->add_option("--last", last_, "how many of the newest [50]")
        ->check(CLI::Range(1, 100'000));
    CLI::App* context = group("context", "the coordinators that the commands know");
    leaf(context, "ls", "list all contexts", [this] { return context_ls(common_.json); });
    leaf(context, "use", "use this context from now on", [this] { return context_use(name_); })
        ->add_option("CONTEXT", name_, "its name")
        ->required();
    leaf(context, "rm", "forget a context, and its token", [this] { return context_rm(name_); })
        ->add_option("CONTEXT", name_, "its name")
        ->required();
  }

  void add_logs() {
    CLI::App* command = leaf(&app_, "logs", "what agents and trainers print",
                             [this] { return cli::logs(common_.context(), logs_); });
    auto* job = command->add_option("JOB", logs_.job, "lines of this job's replicas: name or id");
    auto* agent = command->add_option("--agent", logs_.agent, "lines of this agent: name or id");
    job->excludes(agent);
    command->add_flag("-f,--follow", logs_.follow, "keep printing new lines");
    command->add_option("--tail", logs_.tail, "how many of the newest lines [200]")
        ->check(CLI::Range(1, 1000));
    command
        ->add_option("--level", logs_.level, "least severity to show: debug, info, warning, error")
        ->check(CLI::IsMember({"debug", "info", "warning", "error"}));
    command->add_option("--replica", logs_.replica, "only lines about this replica, e.g. rep_7");
    command->add_option("--grep", logs_.text, "only lines with this text");
  }

  void add_datasets() {
    CLI::App* dataset = group("dataset", "what jobs train on");
    add_dataset_flags(*leaf(dataset, "add", "upload files as a dataset; continues where it stopped",
                            [this] { return dataset_add(common_.context(), dataset_); }),
                      dataset_);
    leaf(dataset, "ls", "list all datasets", [this] { return dataset_ls(common_.context()); });
    const auto of_one = [&](const char* verb, const char* what,
                            Result<int> (*run)(const Context&, const std::string&)) {
      leaf(dataset, verb, what, [this, run] { return run(common_.context(), name_); })
          ->add_option("NAME", name_, "its name")
          ->required();
    };
    of_one("get", "show one dataset, with its shards", dataset_get);
    of_one("verify", "read the stored files again and compare their SHA-256", dataset_verify);
    of_one("rm", "remove a dataset, and its files that nothing else uses", dataset_rm);
    add_prepare_flags(*leaf(dataset, "prepare", "turn files of text into shards of tokens",
                            [this] { return dataset_prepare(prepare_, common_.json); }),
                      prepare_);
  }

  void add_files() {
    CLI::App* file = group("file", "what was uploaded for datasets and as code of jobs");
    leaf(file, "ls", "list all files, with what uses them", [this] {
      return file_ls(common_.context(), files_.unused);
    })->add_flag("--unused", files_.unused, "only files that nothing uses");
    CLI::App* rm = leaf(file, "rm", "remove files; refused for one that is in use",
                        [this] { return file_rm(common_.context(), files_); });
    rm->add_option("SHA256", files_.files, "the files: their SHA-256, or its first digits");
    rm->add_flag("--unused", files_.unused, "all your unused files that are older than an hour");
  }

  void add_checkpoints() {
    CLI::App* checkpoint = group("checkpoint", "saved models");
    leaf(checkpoint, "ls", "list all checkpoints, or those of a job", [this] {
      return checkpoint_ls(common_.context(), name_);
    })->add_option("JOB", name_, "name or id [all jobs]");
    const auto take_checkpoint = [this](CLI::App* command) {
      command->add_option("CHECKPOINT", name_, "id of a checkpoint")->required();
      return command;
    };
    take_checkpoint(leaf(checkpoint, "pin", "keep it: no rule deletes it",
                         [this] { return checkpoint_pin(common_.context(), name_); }));
    take_checkpoint(leaf(checkpoint, "unpin", "end the pin: rules may delete it again",
                         [this] { return checkpoint_unpin(common_.context(), name_); }));
    take_checkpoint(leaf(checkpoint, "rm", "delete it; says what that would break", [this] {
      return checkpoint_rm(common_.context(), name_, force_);
    }))->add_flag("--force", force_, "even if it is needed");
    leaf(checkpoint, "verify", "read its files again and compare their SHA-256",
         [this] { return checkpoint_verify(common_.context(), name_); })
        ->add_option("CHECKPOINT|JOB", name_, "id of a checkpoint, or a job: its newest one")
        ->required();
    CLI::App* download =
        leaf(checkpoint, "download", "fetch and verify files; continues where it was interrupted",
             [this] { return checkpoint_download(common_.context(), name_, folder_); });
    download->add_option("CHECKPOINT|JOB", name_, "id of a checkpoint, or a job: its newest one")
        ->required();
    download->add_option("-o,--output", folder_, "folder [the checkpoint's id]");
    add_export(checkpoint);
  }

  void add_export(CLI::App* checkpoint) {
    CLI::App* command =
        leaf(checkpoint, "export",
             "write the parameters for the Hugging Face libraries, or as your program names them",
             [this] { return checkpoint_export(common_.context(), export_); });
    add_export_flags(*command, export_);
  }

  void add_generate() {
    CLI::App* command = leaf(&app_, "generate", "sample text from a checkpoint",
                             [this] { return generate(common_.context(), generate_); });
    command
        ->add_option("--checkpoint", generate_.checkpoint,
                     "folder, id of a checkpoint, or a job: its newest")
        ->required();
    command->add_option("--prompt", generate_.prompt, "the text to continue; may be empty")
        ->required();
    command->add_option("--tokens", generate_.tokens, "how many tokens [200]")
        ->check(number_within(0, 1'000'000));
    command
        ->add_option("--temperature", generate_.temperature, "0: always the likeliest token [0.8]")
        ->check(number_within(0, 100));
    command
        ->add_option("--top-k", generate_.top_k,
                     "sample from the k likeliest tokens; 0: from all [0]")
        ->check(number_within(0, 1 << 22));
    command->add_option("--seed", generate_.seed, "the same seed gives the same text [1]");
  }

  void add_tokenizers() {
    CLI::App* tokenizer = group("tokenizer", "text to tokens and back, on this host");
    add_train_flags(*leaf(tokenizer, "train", "learn byte-level BPE from text",
                          [this] { return tokenizer_train(train_, common_.json); }),
                    train_);
    add_encode_flags(*leaf(tokenizer, "encode", "print the tokens of a text",
                           [this] { return tokenizer_encode(encode_, common_.json); }),
                     encode_);
    add_decode_flags(*leaf(tokenizer, "decode", "print the text of tokens",
                           [this] { return tokenizer_decode(encode_, common_.json); }),
                     encode_);
    leaf(tokenizer, "info", "describe a tokenizer",
         [this] { return tokenizer_info(name_, common_.json); })
        ->add_option("FILE", name_, "tokenizer.json, or a SentencePiece model")
        ->required();
  }

  void add_admin() {
    CLI::App* admin = group("admin", "show a coordinator's space, back up its files, check a copy");
    leaf(admin, "space", "show what takes its space, by kind and by job",
         [this] { return admin_space(common_.context()); });
    CLI::App* backup =
        leaf(admin, "backup", "copy its folder, which may be in use: database, checkpoints, CA",
             [this] { return admin_backup(backup_, common_.json); });
    backup->add_option("--data-dir", backup_.data_dir,
                       "the coordinator's folder (or SHOAL_COORDINATOR_DATA_DIR) "
                       "[~/.local/share/shoal/coordinator]");
    backup->add_option("--to", backup_.to, "a new folder for the copy")->required();
    CLI::App* check =
        leaf(admin, "restore-check",
             "check that every file of a copy is whole, and a coordinator would start",
             [this] { return admin_restore_check(folder_, common_.json); });
    check->add_option("FOLDER", folder_, "folder of the copy")->required();
  }

  void add_version() {
    app_.set_version_flag("--version", "shoal " SHOAL_VERSION);
    leaf(&app_, "version", "the versions of this binary and of the coordinator",
         [this] { return version(common_.context(), SHOAL_VERSION); });
  }

  void add_completion() {
    CLI::App* command =
        leaf(&app_, "completion", "print a script that completes these commands in a shell",
             [this]() -> Result<int> {
               print(*completion_script(name_));
               return kExitOk;
             });
    command->add_option("SHELL", name_, "bash, zsh or fish")
        ->required()
        ->check(CLI::IsMember({"bash", "zsh", "fish"}));
  }

  // Answers the shell with one candidate per line. Offers no names when no coordinator answers.
  int offer(const std::vector<std::string>& words) {
    const Candidates found = complete(app_, words);
    for (const std::string& word : found.words) print(word + "\n");
    if (found.names_of == NamesOf::kNothing) return kExitOk;
    for (std::size_t i = 0; i + 1 < words.size(); ++i) {
      if (words[i] == "--addr") common_.wanted.addr = words[i + 1];
      if (words[i] == "--token-file") common_.wanted.token_file = words[i + 1];
    }
    const char* path = found.names_of == NamesOf::kJobs ? "/jobs?order=desc" : "/agents";
    const auto listed = common_.context().api.list(path, kNamesMax);
    if (!listed) return kExitOk;
    for (const Json& one : listed->at("items")) {
      const std::string name = text_at(one, "name");
      if (name.rfind(words.back(), 0) == 0) print(name + "\n");
    }
    return kExitOk;
  }

  void take_name(CLI::App* command, const std::string& shown) {
    command->add_option(shown, name_, "name or id")->required();
  }

  // Prints the parser's message, unless a command was merely misspelled.
  int refuse(const CLI::ParseError& error, int argc, char** argv) {
    if (argc < 2) return say(app_.help()), kExitUsage;
    const CLI::App* at = &app_;
    for (int i = 1; i < argc; ++i) {
      const std::string word = argv[i];
      if (word.empty() || word[0] == '-') break;
      std::vector<std::string> names;
      const CLI::App* next = nullptr;
      for (const CLI::App* sub : at->get_subcommands([](const CLI::App*) { return true; })) {
        names.push_back(sub->get_name());
        if (sub->get_name() == word) next = sub;
      }
      if (names.empty()) break;
      if (!next) return refuse_command(*at, word, names);
      at = next;
    }
    say(paint("error: ", Color::kRed, terminal().stderr_color) + error.what());
    say("hint: see `" + full_name(*at) + " --help`");
    return kExitUsage;
  }

  int refuse_command(const CLI::App& at, const std::string& word,
                     const std::vector<std::string>& names) {
    say(paint("error: ", Color::kRed, terminal().stderr_color) + full_name(at) +
        " has no command '" + word + "'");
    const auto meant = command_meant(word, names);
    say(meant ? "hint: did you mean `" + full_name(at) + " " + *meant + "`?"
              : "hint: it has " + listed(names) + "; see `" + full_name(at) + " --help`");
    return kExitUsage;
  }

  static std::vector<std::string> reversed(std::vector<std::string> words) {
    std::reverse(words.begin(), words.end());  // as CLI11 wants them
    return words;
  }

  static std::string full_name(const CLI::App& app) {
    return app.get_parent() ? full_name(*app.get_parent()) + " " + app.get_name() : app.get_name();
  }

  CLI::App app_;
  Common common_;
  Action action_;
  UpOptions up_;
  SubmitOptions submit_;
  AgainOptions again_;
  EventsOptions events_;
  LogsOptions logs_;
  BackupOptions backup_;
  TokenOptions token_;
  LoginOptions login_;
  int last_ = 50;
  DatasetOptions dataset_;
  FileRemoval files_;
  GenerateOptions generate_;
  ExportOptions export_;
  TrainTokenizerOptions train_;
  EncodeOptions encode_;
  PrepareDatasetOptions prepare_;
  std::string name_, folder_, round_;
  bool with_gone_ = false, force_ = false, why_ = false;
  std::string search_;
  JobChanges changes_;
  WaitOptions wait_;
};

}  // namespace
}  // namespace shoal::cli

int main(int argc, char** argv) { return shoal::cli::Tree().run(argc, argv); }
