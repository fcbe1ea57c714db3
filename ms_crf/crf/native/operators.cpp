// The functions that MindSpore calls.
//
// Inputs of each operator: emissions (length, batch, tags) or (batch, length, tags), float32; lengths (batch,), any
// integers; transitions (tags, tags), start (tags,) and end (tags,), float32; allowed, bool, (tags * tags + 2 * tags,),
// or (1,) if everything is allowed; settings (1,), int32, 1 for batch first; then the operator's own inputs. The output
// is one flat float32 array.

#include "best.h"
#include "sums.h"

namespace chain {
namespace {

// Sizes of results, computed from the shapes of inputs; -1 if a shape is unknown.
struct Sizes {
    int64_t rows, emissions, tags;

    Sizes(int *ranks, int64_t **shapes)
        : rows(native::axis_of(ranks, shapes, LENGTHS, 0)),
          emissions(native::product(shapes[EMISSIONS], ranks[EMISSIONS])),
          tags(native::axis_of(ranks, shapes, START, 0)) {}

    bool known() const { return rows >= 0 && emissions >= 0 && tags > 0; }

    int64_t positions() const { return emissions / tags; }
};

std::vector<int64_t> size_of_packed(int *ranks, int64_t **shapes) {
    const Sizes sizes(ranks, shapes);
    return {sizes.known() ? sizes.rows + sizes.emissions + sizes.rows * sizes.tags * sizes.tags : -1};
}

std::vector<int64_t> size_of_gradients(int *ranks, int64_t **shapes) {
    const Sizes sizes(ranks, shapes);
    return {sizes.known() ? sizes.emissions + sizes.tags * sizes.tags + 2 * sizes.tags : -1};
}

void check(const Arguments &arguments) { Checked(arguments, 0); }

void check_loss(const Arguments &arguments) {
    const Checked sizes(arguments, 1);
    const bool batch_first = Checked::batch_first(arguments);
    arguments.expect(OWN, "tags", Type::INTEGERS,
                     {batch_first ? sizes.rows : sizes.length, batch_first ? sizes.length : sizes.rows});
}

void check_gradients(const Arguments &arguments) {
    const Checked sizes(arguments, 2);
    arguments.expect(OWN, "packed result", Type::FLOATS, {sizes.packed()});
    arguments.expect(OWN + 1, "factors", Type::FLOATS, {sizes.rows});
}

void check_path_posteriors(const Arguments &arguments) {
    const Checked sizes(arguments, 1);
    arguments.expect(OWN, "paths", Type::INTEGERS, {sizes.rows, sizes.length});
}

void check_n_best(const Arguments &arguments) {
    Checked(arguments, 1);
    arguments.expect(OWN, "several", Type::INT32, {ANY});
}

void check_path_gradients(const Arguments &arguments) {
    const Checked sizes(arguments, 2);
    const int64_t paths = std::max(int64_t(1), arguments.size(OWN + 1) / sizes.rows) * sizes.rows;
    arguments.expect(OWN + 1, "factors", Type::FLOATS, {paths});
    arguments.expect(OWN, "scores and paths", Type::FLOATS, {paths + paths * sizes.length});
}

void check_viterbi_gradients(const Arguments &arguments) {
    const Checked sizes(arguments, 2);
    arguments.expect(OWN, "scores and history", Type::FLOATS, {sizes.emissions});
    arguments.expect(OWN + 1, "factors", Type::FLOATS, {sizes.rows * sizes.tags});
}

}  // namespace
}  // namespace chain

OPERATOR(ChainNormalizer, chain::check, chain::normalizer) { return chain::size_of_packed(ranks, shapes); }

OPERATOR(ChainLoss, chain::check_loss, chain::loss) { return chain::size_of_packed(ranks, shapes); }

OPERATOR(ChainGradients, chain::check_gradients, chain::gradients) { return chain::size_of_gradients(ranks, shapes); }

OPERATOR(ChainPathGradients, chain::check_path_gradients, chain::path_gradients) {
    return chain::size_of_gradients(ranks, shapes);
}

OPERATOR(ChainViterbiGradients, chain::check_viterbi_gradients, chain::viterbi_gradients) {
    return chain::size_of_gradients(ranks, shapes);
}

OPERATOR(ChainMarginals, chain::check, chain::marginals) {
    return std::vector<int64_t>(shapes[chain::EMISSIONS], shapes[chain::EMISSIONS] + ranks[chain::EMISSIONS]);
}

OPERATOR(ChainPathPosteriors, chain::check_path_posteriors, chain::path_posteriors) {
    const chain::Sizes sizes(ranks, shapes);
    return {sizes.known() ? sizes.positions() + sizes.emissions : -1};
}

OPERATOR(ChainDecode, chain::check, chain::decode) {
    const chain::Sizes sizes(ranks, shapes);
    return {sizes.known() ? sizes.rows + sizes.positions() : -1};
}

OPERATOR(ChainViterbi, chain::check, chain::viterbi_scores) {
    const chain::Sizes sizes(ranks, shapes);           // scores and length - 1 positions: as many as the emissions
    return {sizes.known() ? sizes.emissions : -1};
}

// The number of paths is the size of the last input.
OPERATOR(ChainNBest, chain::check_n_best, chain::n_best) {
    const chain::Sizes sizes(ranks, shapes);
    const int64_t n = native::axis_of(ranks, shapes, chain::OWN, 0);
    return {sizes.known() && n >= 0 ? n * (sizes.rows + sizes.positions()) : -1};
}

// Message of the last failed operator call of this thread.
extern "C" const char *NativeFault() { return native::fault.c_str(); }

// Numbers of rows since the start of the process: computed by scaled products, and also in the log domain.
extern "C" void ChainCounts(int64_t *by_products, int64_t *by_logarithms) {
    *by_products = chain::rows_by_products;
    *by_logarithms = chain::rows_by_logarithms;
}
