"""The arithmetic of a whole DiLoCo job in numpy. docs/diloco.md explains the numbered steps, and
names the files that implement them. The job examples/python/diloco.toml ends with the same bits.

    python3 examples/diloco.py TEXT [ROUNDS]    # those of a job: shoal round ls JOB --json > ROUNDS
"""
import hashlib, itertools, json, math, sys
import numpy as np

REPLICAS, ROUNDS, EVERY = 3, 4, 10
BATCH, CONTEXT, SEED = 4, 32, 1  # sequences of an inner step, tokens of a sequence
LR, BETA1, BETA2, EPS, DECAY, CLIP = 0.01, 0.9, 0.99, 1e-8, 0.1, 1.0  # the inner AdamW
OUTER_LR, OUTER_MOMENTUM, f32 = 0.9, 0.5, np.float32
GOLDEN, WORD = 0x9E3779B97F4A7C15, 2**64 - 1

def mix(x):
    x = x + GOLDEN & WORD
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9 & WORD
    x = (x ^ x >> 27) * 0x94D049BB133111EB & WORD
    return x ^ x >> 31

def permuted(size, seed, index):  # 1. the item with number `index` in a seeded order
    half = max(1, ((size - 1).bit_length() + 1) // 2)
    left, right = index >> half, index & (1 << half) - 1
    for key in (mix(seed + k * GOLDEN) for k in range(4)):
        left, right = right, left ^ mix(mix(key) ^ right) & (1 << half) - 1
    index = left << half | right
    return index if index < size else permuted(size, seed, index)

def batch(text, first):  # 1. sequences first, first + 1, ... of the job: windows of the text
    size, rows = (len(text) - 1) // CONTEXT, []
    for epoch, place in (divmod(number, size) for number in range(first, first + BATCH)):
        start = CONTEXT * permuted(size, SEED * GOLDEN + epoch & WORD, place)
        rows.append(text[start:start + CONTEXT + 1])
    return np.stack(rows)[:, :-1], np.stack(rows)[:, 1:]

def initial():  # 2. row b of the model: the logits of the byte that follows byte b
    return f32(0.1) * np.random.default_rng(SEED).standard_normal((256, 256), f32)

def loss_and_gradient(table, x, y):
    chances = np.exp(table[x] - table[x].max(1, keepdims=True))
    chances /= chances.sum(1, keepdims=True)
    gradient = np.zeros_like(table)
    np.add.at(gradient, x, (chances - np.eye(256, dtype=f32)[y]) / f32(len(y)))
    return -float(np.log(chances[np.arange(len(y)), y]).mean()), gradient

class Replica:
    def __init__(self, parameters):
        self.parameters, self.steps = parameters, 0
        self.m, self.v = np.zeros((2, *parameters.shape), f32)
    def inner_step(self, x, y):  # 3. clip the gradient, then AdamW
        loss, gradient = loss_and_gradient(self.parameters, x.ravel(), y.ravel())
        gradient *= f32(CLIP / max(CLIP, math.sqrt(np.square(gradient).sum())))
        self.steps += 1
        self.m = f32(BETA1) * self.m + f32(1 - BETA1) * gradient
        self.v = f32(BETA2) * self.v + f32(1 - BETA2) * gradient * gradient
        m, v = self.m / f32(1 - BETA1**self.steps), self.v / f32(1 - BETA2**self.steps)
        self.parameters *= f32(1 - LR * DECAY)
        self.parameters -= f32(LR) * m / (np.sqrt(v) + f32(EPS))
        return loss

def clip_factors(deltas, steps):  # 5. a norm above the median, at equal work, becomes the median
    norms = [math.sqrt(np.cumsum(np.square(delta, dtype=np.float64))[-1]) for delta in deltas]
    work, logs = (np.array([math.log(value) for value in values]) for values in (steps, norms))
    much = work > (work.min() + work.max()) / 2  # no replica, if all have the same
    rise = [np.median(v[much]) - np.median(v[~much]) if much.any() else 0 for v in (logs, work)]
    growth = min(max(rise[0] / (rise[1] or 1), 0.5), 1.0)  # norms grow like steps ** growth
    norms = np.array([norm / math.exp(growth * w) for norm, w in zip(norms, work)])
    return np.minimum(1.0, np.median(norms) / norms)

def outer_step(anchor, momentum, deltas, steps):
    total, weight = np.zeros_like(anchor), 0.0
    for delta, count, clip in zip(deltas, steps, clip_factors(deltas, steps)):
        share = count / max(steps)  # 6. weights are tokens; the sum has the order of the replicas
        total, weight = total + f32(share * clip) * delta, weight + share
    average = total * f32(1 / weight)
    momentum = f32(OUTER_MOMENTUM) * momentum + average  # 7. Nesterov
    return anchor - f32(OUTER_LR) * (average + f32(OUTER_MOMENTUM) * momentum), momentum

def train(text, rounds):
    anchor, sequences = initial(), itertools.count(0, BATCH)
    momentum, replicas = np.zeros_like(anchor), [Replica(anchor.copy()) for _ in rounds[0]]
    for number, steps in enumerate(rounds, 1):
        for replica, count in zip(replicas, steps):  # in a job they train at the same time
            for _ in range(count):
                loss = replica.inner_step(*batch(text, next(sequences)))
        deltas = [anchor - replica.parameters for replica in replicas]  # 4. pseudo-gradients
        anchor, momentum = outer_step(anchor, momentum, deltas, steps)
        for replica in replicas:
            replica.parameters[:] = anchor  # 8. the commit
        print(f"round {number}: inner steps {steps}, last loss {loss:.4f}")
    return anchor, momentum

if __name__ == "__main__":
    text, rounds = np.fromfile(sys.argv[1], np.uint8), [[EVERY] * REPLICAS] * ROUNDS
    if len(sys.argv) > 2:
        items = sorted(json.load(open(sys.argv[2]))["items"], key=lambda one: one["round"])
        rounds = [[part["steps"] for part in one["contributions"]] for one in items]
    for name, values in zip(("anchor", "momentum"), train(text, rounds)):
        print(name, hashlib.sha256(values.tobytes()).hexdigest())
