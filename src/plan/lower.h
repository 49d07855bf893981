// lower - what the files of lowering share; nobody else includes it.
//
//   here      which nodes and inputs concern this rank, and in which stage
//   own       shapes of what every rank has of its own
//   segments  nodes in the order in which they will run
//   wait      which of them let communication go first
//   early     which of the update run as soon as a gradient is complete
//   uses      who reads a value, until when, and where its producer should put it
//   node      one node: asks the target, gives operands their places, makes steps;
//             views, convert, accumulate are its special cases
//   offload   when copies from and to the host must be over
//   flight    which collectives travel together, from when to when
//   lifetime  from when to when the steps touch a buffer
//   stash     places for older versions of weights; pack: offsets

#ifndef TT_PLAN_LOWER_H
#define TT_PLAN_LOWER_H

#include "plan/plan.h"

// Where a value's producer shall write it, instead of into a buffer of its own.
typedef enum tt__dest {
    TT__DEST_NONE,
    TT__DEST_STATE, // into the state that it replaces
    TT__DEST_BLOCK, // into its block of a state that is gathered from blocks
    TT__DEST_PART,  // into its place in a concatenation
    TT__DEST_SUM,   // added to an accumulated sum
} tt__dest;

typedef struct tt__info { // of a value of the graph
    tt_operand operand;   // local and dense
    int32_t root;         // the value whose memory it is, through aliases
    int32_t uses;         // live reads; reading only the shape does not count
    int32_t last;         // position of the last read, also through views
    tt__dest dest;
    int32_t dest_of; // the state's value, or the node that joins, sums, gathers
    int32_t dest_slot; // which input of that node, perhaps through views
    bool is_host_read; // after the step: outputs and gradients
    bool is_on_host;   // lies in the host's memory
    bool is_summed;    // its producer has added it to the sum
    bool is_spent;     // a sum that was overwritten by its sum over ranks
    double depth;      // longest chain of operations up to here
} tt__info;

typedef struct tt__buffer_info {
    int32_t needed;          // position of the last read of any value in it
    int32_t first_converted; // newest conversion of something in it, or -1
    bool is_kernel_scratch;
} tt__buffer_info;

typedef struct tt__converted {
    tt_ref from, to;
    int32_t segment;
    tt_phase phase; // those of the update are read by steps of the update only
    int32_t next;   // older conversion of the same buffer, or -1
} tt__converted;

typedef struct tt__lower {
    const tt_graph *g; // this rank's: see here.c
    tt_target *target;
    tt_plan *plan;
    tt_arena *arena; // temporary
    bool split_weight_grad, in_order;
    const tt_lower_row *row; // NULL: no pipeline
    int32_t n_rows;
    bool is_endless; // updates are rows; n_versions: of weights, per stage
    const int32_t *n_versions;
    int64_t bucket_bytes;
    bool is_even; // all ranks hold parts of the same shapes

    tt__info *info;    // per value
    bool *is_here;     // per node: this rank takes part in it
    bool *is_live;     // per node: here, and somebody needs it
    int32_t *stage;    // per node
    bool *is_early;    // per node: of the update, runs in backward (early.c)
    tt_phase *runs_in; // per node: its phase; early: that of what it follows
    int32_t *at;       // per node: its position, or -1
    int32_t *node_at;  // per position: the node
    int32_t n_at;

    int32_t buffers_capacity, steps_capacity;
    tt__buffer_info *buffer; // parallel to plan->buffer
    int32_t n_converted, converted_capacity;
    tt__converted *converted;

    // The node being lowered.
    int32_t position, segment;
    tt_phase phase;
    const char *origin;
    tt_operand *operand, *view_operand; // room for the widest node, each
    tt_ref *ref;
    tt_type *type;
} tt__lower;

enum { TT__END = INT32_MAX }; // a position after all others

// Room for one more entry of an array in an arena.
tt_status tt__grow(tt_arena *arena, void *array_io, int64_t entry_bytes,
                   int32_t n, int32_t *capacity_io);

static inline bool tt__is_read(const tt_node *node, int i)
{
    const bool is_shape = i < 32 && (node->op->shape_only >> i & 1) != 0;
    return tt_is(node->in[i]) && !is_shape;
}

// own: shapes of what every rank has of its own.
tt_status tt__own_shapes(tt__lower *l);

// here: what this rank has of the graph, where values lie at some ranks only.
tt_status tt__here_find(tt__lower *l);
// Whether the rank holds nothing of the value.
static inline bool tt__is_absent(const tt__lower *l, tt_val v)
{
    return tt_is(v) && l->info[v.id].operand.local.is_absent;
}

// Whether a node sends its input to another stage, and no more.
static inline bool tt__is_sent(const tt__lower *l, const tt_node *node)
{
    return (node->op->flags & TT_OP_COLLECTIVE) != 0 &&
           tt__is_absent(l, node->out[0]);
}

// segments: fills node_at and at, plan->segment (with node ranges in place of
// steps, until the steps are known) and plan->order.
tt_status tt__segments_make(tt__lower *l);

// wait: the nodes of a graph in an order in which they may run; early moves some.
void tt__order_nodes(const tt_graph *g, int32_t *order);
tt_status tt__early_find(tt__lower *l, int32_t *order);
void tt__uses_find(tt__lower *l);

// homes: where values lie. A state has none until its first reader wants a form.
tt_status tt__buffer_add(tt__lower *l, const tt_buffer *buffer,
                         int32_t *id_out);
tt_ref *tt__home(tt__lower *l, tt_val v); // buffer -1: none yet
void tt__home_set(tt__lower *l, tt_val v, const tt_ref *ref);
// Gives v a buffer of its own in this form.
tt_status tt__home_make(tt__lower *l, tt_val v, const tt_operand *form);
// The home of something that is read; decides on dense where undecided.
tt_status tt__home_read(tt__lower *l, tt_val v, tt_ref *ref_out);
tt_status tt__homes_finish(tt__lower *l); // states nobody read, aliases

// The step's arrays are copied; its scratch and cost are filled in.
tt_status tt__step_add(tt__lower *l, tt_step *step);
tt_status tt__step_choose(tt__lower *l, tt_site *site, tt_choice *choice_out);

// convert: the reorder steps.
tt_status tt__convert(tt__lower *l, const tt_ref *from, const tt_operand *form,
                      tt_ref *to_out);
tt_status tt__convert_into(tt__lower *l, const tt_ref *from, const tt_ref *to);
// Forgets conversions from and to a buffer that was written.
void tt__convert_forget(tt__lower *l, int32_t buffer);

// One node of each kind. `*is_done_out` is false when the general way must be taken.
tt_status tt__lower_view(tt__lower *l, const tt_node *node, bool *is_done_out);
tt_status tt__lower_concat(tt__lower *l, const tt_node *node,
                           bool *is_done_out);
tt_status tt__lower_accumulate(tt__lower *l, const tt_node *node);
tt_status tt__lower_node(tt__lower *l, const tt_node *node);

// The place of input `slot` of a concatenation inside its output, in the shape of
// `v`: that input, or what it is a relabelled view of. False when strides cannot
// express it.
bool tt__concat_part(tt__lower *l, const tt_node *node, int slot, tt_val v,
                     tt_ref *part_out);
// The place of `v`, a block that an all_gather joins with others, inside the state that
// the gather updates. False when the block is no run of memory.
bool tt__state_block(tt__lower *l, tt_val v, tt_ref *block_out);
// The place of a block inside its whole; false likewise.
bool tt__block_in(const tt__lower *l, const tt_ref *whole,
                  const tt_operand *part, tt_ref *block_out);
// A layout for `part`, a block of `whole` along dim 0, such that all blocks side by side
// are the whole in its layout; 0: there is none, or not on every rank.
int32_t tt__part_layout(const tt__lower *l, const tt_operand *whole,
                        const tt_operand *part);
// Whether output 0 of this view is its input under other names.
bool tt__view_is_relabel(tt__lower *l, const tt_node *node);

// Where an input of a step is read, in the form that the kernel asked for.
tt_status tt__read_as(tt__lower *l, tt_val v, const tt_operand *form,
                      tt_ref *ref_out);

// accumulate: in which form a term of a sum should be produced; and adding it to the
// sum right there, if the kernel's answer allows. Sets is_summed and its home then.
void tt__accumulate_wish(tt__lower *l, tt_val v, tt_operand *form);
tt_status tt__accumulate_try(tt__lower *l, tt_val v, const tt_operand *form,
                             const tt_choice *choice, tt_accumulate *mode_out);

// flight, lifetime, pack, sums
tt_status tt__flights_make(tt__lower *l);
tt_status tt__clock_make(tt__lower *l);
tt_status tt__flights_verify(const tt_plan *plan);
void tt__beside_find(tt__lower *l); // when copies from and to the host end
tt_status tt__lifetimes_find(tt__lower *l);
tt_status tt__pack(tt__lower *l);
tt_status tt__memory_sum(tt__lower *l); // bytes by use and class

#endif
