"""Trains a Hugging Face `Trainer` under Shoal.

    import shoal, shoal.hf
    with shoal.join() as replica:
        trainer = Trainer(model=model, args=args, train_dataset=dataset, eval_dataset=held_out)
        shoal.hf.attach(replica, trainer)
        trainer.train()

The Trainer keeps its optimizer, schedule, accumulation, precision, logging and callbacks. The job
decides what is its own: the batches, how many steps there are and which one this is.
"""

from transformers import TrainerCallback

from shoal._library import Error


def attach(replica, trainer, identity=None):
    """Makes `trainer.train()` train this replica of the job.

    train.batch sequences make one optimizer step, in args.gradient_accumulation_steps parts. The
    job's evaluations are of trainer.eval_dataset, where there is one. `identity`: as of run.batches().
    """
    args, job = trainer.args, replica.job["train"]
    parts = args.gradient_accumulation_steps * replica.ranks
    if job["batch"] % parts:
        raise Error(f"train.batch: {job['batch']} sequences cannot be divided into {parts} parts, "
                    "gradient_accumulation_steps of each rank (make it a multiple)")
    if args.device != replica.device and args.device.type == "cuda":
        raise Error(f"the Trainer is on {args.device} and the agent's device is {replica.device}: leave "
                    "CUDA_VISIBLE_DEVICES as the agent sets it, and use_cpu at False")
    args.max_steps = job["steps"]
    callback = _Callback(replica, trainer, identity)
    trainer.add_callback(callback)
    trainer.training_step = callback.counted(trainer.training_step)
    trainer.get_train_dataloader = callback.loader(trainer.get_train_dataloader)


class _Batches:
    """What the Trainer iterates over: each batch of the job in the parts that it accumulates. Has no
    length, so that the Trainer counts steps; continues where it was in each epoch of the Trainer."""

    def __init__(self, callback, dataset, collate, parts):
        self.dataset, self.batch_size = dataset, None
        self._callback, self._collate, self._parts = callback, collate, parts
        self._batches = None

    def _split(self, items):
        count = len(items) // self._parts
        return [self._collate(items[i * count:(i + 1) * count]) for i in range(self._parts)]

    def __iter__(self):
        if self._batches is None:
            self._batches = self._callback.run.batches(self.dataset, self._split,
                                                             identity=self._callback.identity)
        for parts in self._batches:
            yield from parts


class _Callback(TrainerCallback):
    def __init__(self, replica, trainer, identity):
        self._replica, self._trainer, self.identity = replica, trainer, identity
        self._loss = 0.0  # of the step's parts so far
        self.run = None

    def counted(self, training_step):
        def step(*arguments, **keywords):
            loss = training_step(*arguments, **keywords)
            self._loss = self._loss + loss.detach()  # each part's is divided by their number
            return loss
        return step

    def loader(self, get_train_dataloader):
        def load():
            of_trainer = get_train_dataloader()  # knows the columns and how items become a batch
            return _Batches(self, of_trainer.dataset, of_trainer.collate_fn,
                            self._trainer.args.gradient_accumulation_steps)
        return load

    def on_train_begin(self, args, state, control, model=None, optimizer=None, lr_scheduler=None, **_):
        self.run = self._replica.diloco(model, optimizer)
        if hasattr(lr_scheduler, "state_dict") and not hasattr(lr_scheduler, "lr_lambdas"):
            self.run.keep("lr_scheduler", lr_scheduler)  # others are functions of the step
        if self._trainer.eval_dataset is not None:
            sets = self._trainer.eval_dataset
            named = isinstance(sets, dict)
            loaders = {name: self._trainer.get_eval_dataloader(one)
                       for name, one in (sets if named else {"": sets}).items()}
            datasets = {name: loader.dataset for name, loader in loaders.items()}
            collate = next(iter(loaders.values())).collate_fn
            self.run.evaluate(datasets if named else datasets[""], self._loss_of, collate)

    def _loss_of(self, **batch):
        return self._trainer.compute_loss(self._trainer.model, batch)

    def on_step_begin(self, args, state, control, lr_scheduler=None, **_):
        """The step is the job's, which may be elsewhere than the Trainer: in a replica that joined, and
        after a restart from a checkpoint."""
        if state.global_step == self.run.step_number:
            return
        state.global_step = self.run.step_number
        if hasattr(self._trainer, "_globalstep_last_logged"):  # its mean loss is over steps since then
            self._trainer._globalstep_last_logged = state.global_step
        if hasattr(lr_scheduler, "lr_lambdas"):  # as those of transformers: a function of the step
            lr_scheduler.last_epoch = self.run.step_number - 1
            lr_scheduler.step()

    def on_step_end(self, args, state, control, **_):
        self.run.step(self._loss)
        self._loss = 0.0
        # The job ends the loop: after its last step there may be evaluations and a checkpoint.
        control.should_training_stop = False
