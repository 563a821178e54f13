/* The C interface of a replica (libshoal_replica.so), for programs that compute in another language
 * than C++. The library has no tensors: it knows a model as one flat vector of float32, made of the
 * program's tensors in the order in which they were named. Everything else that a trainer does is
 * in it: the agent, the rounds, the peers, joining, the files of checkpoints.
 *
 * The library works in threads of its own and asks the program by orders. A program
 *
 *   1. calls shoal_join(), which reads SHOAL_* of its environment, as its agent set them;
 *   2. takes orders with shoal_next() and answers each one, in the same thread, until SHOAL_END;
 *   3. calls shoal_leave().
 *
 * An order that is not answered within the limit of shoal_join() fails the replica. Between
 * SHOAL_TRAIN and its answer the library touches neither parameters nor memory of the program.
 *
 * Functions return 0, or -1 and a sentence in shoal_last_error(). One thread at a time per handle.
 * Texts are UTF-8. */
#pragma once

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SHOAL_ABI_VERSION 6
#define SHOAL_PUBLIC __attribute__((visibility("default")))

typedef struct shoal_replica shoal_replica;
typedef struct shoal_data shoal_data;

/* What is said to the agent of the device, and how long an order may take. */
typedef struct {
  const char* device_name; /* "AMD EPYC 7763", "NVIDIA H100" */
  const char* libraries;   /* "PyTorch 2.4.0, 8 threads" */
  int64_t memory_bytes;    /* that a replica may use; 0: as the agent probed */
  double gflops;           /* measured, of a float32 matrix product */
  double order_limit_s;    /* above 0 */
} shoal_process;

enum {
  /* The program is given its job: answer with shoal_answer_model(). `text`: the spec as JSON. Of a
   * pipeline of `count` stages (1: none) it computes stage `index`; `value_count`: the parameters
   * of the whole model that the spec describes. */
  SHOAL_MODEL = 1,
  /* Take the job's initial parameters: those of the checkpoint in the folder `text`, or where that
   * is empty those that the program has built. */
  SHOAL_SEED = 2,
  /* Fill `values` with the parameters. */
  SHOAL_READ = 3,
  /* Take the parameters from `values`. */
  SHOAL_WRITE = 4,
  /* One inner step, `step` of the job, on `sequences` sequences from `first_sequence` on of the
   * seeded order: answer with shoal_answer_step(). `count`: sequences from there on, these
   * included, that this replica trains in the round one after the other. */
  SHOAL_TRAIN = 5,
  /* Batch `index` of `count` held-out ones, of `sequences` each: answer with shoal_answer_loss().
   */
  SHOAL_EVALUATE = 6,
  /* A checkpoint of stage `index` of `count` is written to the folder `text`, or a copy of the
   * program's state for a replica that joins. The library writes
   * the parameters and the vectors of the outer optimizer. Write what only the program has, with
   * shoal_write_object() and shoal_write_file(), and answer with shoal_answer_files(). */
  SHOAL_WRITE_CHECKPOINT = 7,
  /* Take the program's own objects from a checkpoint, or as another replica wrote them:
   * shoal_list_files() names their files. The parameters
   * follow with SHOAL_WRITE. */
  SHOAL_READ_CHECKPOINT = 8,
  /* There will be no more. `text`: why, or empty when the agent has released the replica or stopped
   * the process. Needs no answer. */
  SHOAL_END = 9,

  /* A stage of a pipeline gets these in place of SHOAL_TRAIN and SHOAL_EVALUATE. A microbatch has
   * `sequences` sequences from `first_sequence` on: of the seeded order with SHOAL_TRAINS, else of
   * `count` held-out ones. Its tensor has sequences * model.context * model.hidden values. */

  /* Nothing is under way: what was kept is not needed any more, and gradients are zero. */
  SHOAL_BEGIN = 10,
  /* `values`: what the stage before computed, none on stage 0, which reads the microbatch. Fill
   * `output`. With SHOAL_TRAINS it is kept as number `index`: its SHOAL_BACKWARD or SHOAL_FORGET
   * follows. */
  SHOAL_FORWARD = 11,
  /* `values`: the gradient of what was computed as number `index`, summed over tokens. Fill
   * `output` with that of its input, but on stage 0. With SHOAL_ADD the gradients of the parameters
   * are added to those of the step. */
  SHOAL_BACKWARD = 12,
  /* The last stage: from `values` the loss of the microbatch; with SHOAL_TRAINS fill `output` with
   * the gradient of `values`, of the loss summed over tokens; SHOAL_ADD as above. Answer with
   * shoal_answer_loss(). */
  SHOAL_LOSS = 13,
  /* What was kept as number `index` is not needed any more. */
  SHOAL_FORGET = 14,
  /* One inner step, `step` of the job, on the gradients added since the last one, which are sums
   * over `count` tokens; then they are zero. Answer with shoal_answer_stage_step(). */
  SHOAL_STEP = 15,
};

enum { SHOAL_TRAINS = 1, SHOAL_ADD = 2 }; /* flags of an order */

typedef struct {
  int32_t kind;
  int32_t flags;
  int64_t step;
  int64_t first_sequence;
  int64_t sequences;
  int64_t index;
  int64_t count;
  float* values; /* valid until the answer, as are the others */
  int64_t value_count;
  float* output;
  int64_t output_count;
  const char* text;
} shoal_order;

/* One tensor of the model whose values travel. */
typedef struct {
  const char* name; /* "blocks.0.attn.weight" */
  const int64_t* shape;
  int64_t dimensions; /* 0: a single value */
  const char* type;   /* on the device, "BF16"; said to people where models differ */
} shoal_tensor;

/* Why an order failed; the names are those of replica_failed events. */
enum {
  SHOAL_FAILED = 0,
  SHOAL_OUT_OF_MEMORY = 1,
  SHOAL_DATA_INVALID = 2,
  SHOAL_DATA_LOST = 3,
  SHOAL_DATA_MISSING = 4
};

SHOAL_PUBLIC int32_t shoal_abi_version(void);
SHOAL_PUBLIC const char* shoal_last_error(void); /* of this thread; valid until its next call */

/* Does not wait for the agent. What goes wrong with it is the text of SHOAL_END. */
SHOAL_PUBLIC int shoal_join(const shoal_process* process, shoal_replica** out);

/* 1: `out` is an order. 0: none came within `wait_ms`. -1: the last one was not answered. */
SHOAL_PUBLIC int shoal_next(shoal_replica* replica, int64_t wait_ms, shoal_order* out);

/* -1: nothing was asked, the answer came too late, or is not of this order. All replicas have the
 * same tensors in the same order; their types may differ. `data`: two words of a
 * digest of the training data, equal on all agents; zeros: none. */
SHOAL_PUBLIC int shoal_answer_model(shoal_replica* replica, const shoal_tensor* tensors,
                                    int64_t tensor_count, const uint64_t* data);
SHOAL_PUBLIC int shoal_answer_step(shoal_replica* replica, double loss, double lr);
/* Before shoal_answer_step() or shoal_answer_stage_step(): a number of the program's own at this
 * inner step, for the job's series. `name`: 1 to 64 letters, digits and . _ - /; the library keeps
 * up to 64 names a second. */
SHOAL_PUBLIC int shoal_log(shoal_replica* replica, const char* name, double value);
SHOAL_PUBLIC int shoal_answer_loss(shoal_replica* replica, double mean_loss);
/* `gradient_norm`: of the mean over tokens, before clipping; not finite: the step was skipped. */
SHOAL_PUBLIC int shoal_answer_stage_step(shoal_replica* replica, double gradient_norm, double lr);

/* ---- objects of checkpoints (docs/checkpoints.md) */

/* A file of a checkpoint. Size and SHA-256 are computed while it is written, not from what is found
 * in it later. */
typedef struct {
  const char* name;   /* without its folder */
  const char* role;   /* "buffers", "inner/NAME", "object/NAME", "file/NAME", "description" */
  int64_t size;       /* bytes; of checkpoints of versions before 0.2 not known: 0 */
  const char* sha256; /* 64 hex digits; likewise: empty */
} shoal_file;

/* A tensor of any type, in row-major order. */
typedef struct {
  const char* name;
  const char* type; /* as the safetensors format calls it: "F32", "I64" */
  const int64_t* shape;
  int64_t dimensions;
  const void* values;
  int64_t bytes;
} shoal_object_tensor;

/* Tensors with a JSON document, or either alone. */
typedef struct {
  const char* folder; /* `text`, `index` and `count` of SHOAL_WRITE_CHECKPOINT */
  int64_t stage;
  int64_t stages;
  const char* role;     /* "buffers", "inner/NAME" or "object/NAME"; the file is named after it */
  const char* document; /* JSON; NULL: none */
  const shoal_object_tensor* tensors;
  int64_t tensor_count; /* 0: the file is the document */
} shoal_object;

/* NAME is 1 to 96 letters, digits and . _ -. Any process of the replica may write objects, without
 * a handle: a rank that holds a shard of an optimizer's state writes its own. The texts of `out`
 * are valid until the next of these calls in the same thread. */
SHOAL_PUBLIC int shoal_write_object(const shoal_object* object, shoal_file* out);
/* A text for people or other libraries, as the index of a sharded model, with the role
 * "description". */
SHOAL_PUBLIC int shoal_write_description(const char* folder, const char* name, const char* text,
                                         shoal_file* out);
/* A copy of the file `path`, which has at most 256 MiB, with the role "file/NAME". */
SHOAL_PUBLIC int shoal_write_file(const char* folder, int64_t stage, int64_t stages,
                                  const char* name, const char* path, shoal_file* out);
/* The files of one stage of the checkpoint in `folder`: their number, or -1. `out` is valid until
 * the next call in the same thread. */
SHOAL_PUBLIC int64_t shoal_list_files(const char* folder, int64_t stage, const shoal_file** out);

/* All files that the program wrote for SHOAL_WRITE_CHECKPOINT, those of all ranks. */
SHOAL_PUBLIC int shoal_answer_files(shoal_replica* replica, const shoal_file* files,
                                    int64_t file_count);
SHOAL_PUBLIC int shoal_answer(shoal_replica* replica);
SHOAL_PUBLIC int shoal_answer_failed(shoal_replica* replica, int32_t failure, const char* detail);

/* Ends the work and frees the handle. `failure`: why the program ends before SHOAL_END, said to
 * people; NULL: it does not. Takes a few seconds at most. */
SHOAL_PUBLIC void shoal_leave(shoal_replica* replica, const char* failure);

/* The datasets of a job (data.dataset, data.mixture), read through the agent, which fetches and
 * verifies what it lacks. A call waits for it; up to ten minutes while the source is away. Any
 * thread may read, several at once; no process but the one that opened it. */
typedef struct {
  int64_t context;    /* a sequence has one token more: inputs and, shifted by one, targets */
  int64_t sequences;  /* of one epoch */
  int64_t held_out;   /* all that are held out */
  uint64_t digest[2]; /* for shoal_answer_model() */
} shoal_data_shape;

/* `spec`: the text of SHOAL_MODEL. When a function for data returns -1, shoal_last_failure() is
 * what shoal_answer_failed() is to be told. */
SHOAL_PUBLIC int shoal_open_data(const char* spec, shoal_data** out, shoal_data_shape* shape);
/* The sequences that are read next (`count` of SHOAL_TRAIN): what is not here yet is fetched a few
 * chunks ahead, and nothing beyond them. */
SHOAL_PUBLIC int shoal_will_read(const shoal_data* data, int64_t first, int64_t count);
/* Sequence `number` >= 0 of the job's order, as SHOAL_TRAIN counts them: shape.context + 1 tokens.
 */
SHOAL_PUBLIC int shoal_read_sequence(const shoal_data* data, int64_t number, int64_t* tokens);
/* Number `index` of `count` held-out ones, evenly spaced; index < count <= shape.held_out. */
SHOAL_PUBLIC int shoal_read_held_out(const shoal_data* data, int64_t index, int64_t count,
                                     int64_t* tokens);
SHOAL_PUBLIC void shoal_close_data(shoal_data* data);
SHOAL_PUBLIC int32_t shoal_last_failure(void); /* of this thread */

/* Where index comes in a seeded order of 0 … size - 1. */
SHOAL_PUBLIC int64_t shoal_permuted(int64_t size, uint64_t seed, int64_t index);
/* Adds bytes to a digest of two words. */
SHOAL_PUBLIC void shoal_digest(const void* bytes, int64_t count, uint64_t* digest);

#ifdef __cplusplus
}
#endif
