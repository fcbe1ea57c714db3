// The operators that MindSpore calls.
//
// Each takes emissions (length, batch, tags) or (batch, length, tags) in float32, lengths (batch,) in any integers,
// transitions, start and end in float32, allowed (tags * tags + 2 * tags) bools or one where all are, settings in int32
// (one element, 1 for batch first), the operator's own inputs, and gives one flat array of float32.

#include "best.h"
#include "sums.h"

namespace chain {
namespace {

// Sizes of results from the shapes of inputs: -1 while one of them is not known.
struct Sizes {
    int64_t rows, emissions, tags;

    Sizes(int *ranks, int64_t **shapes)
        : rows(shapes[LENGTHS][0]), emissions(native::product(shapes[EMISSIONS], ranks[EMISSIONS])), tags(shapes[START][0]) {}

    bool known() const { return rows >= 0 && emissions >= 0 && tags >= 0; }
};

std::vector<int64_t> size_of_packed(int *ranks, int64_t **shapes) {
    const Sizes sizes(ranks, shapes);
    return {sizes.known() ? sizes.rows + sizes.emissions + sizes.rows * sizes.tags * sizes.tags : -1};
}

std::vector<int64_t> size_of_gradients(int *ranks, int64_t **shapes) {
    const Sizes sizes(ranks, shapes);
    return {sizes.known() ? sizes.emissions + sizes.tags * sizes.tags + 2 * sizes.tags : -1};
}

}  // namespace
}  // namespace chain

OPERATOR(ChainNormalizer, chain::normalizer) { return chain::size_of_packed(ranks, shapes); }

OPERATOR(ChainLoss, chain::loss) { return chain::size_of_packed(ranks, shapes); }

OPERATOR(ChainGradients, chain::gradients) { return chain::size_of_gradients(ranks, shapes); }

OPERATOR(ChainPathGradients, chain::path_gradients) { return chain::size_of_gradients(ranks, shapes); }

OPERATOR(ChainViterbiGradients, chain::viterbi_gradients) { return chain::size_of_gradients(ranks, shapes); }

OPERATOR(ChainMarginals, chain::marginals) {
    return std::vector<int64_t>(shapes[chain::EMISSIONS], shapes[chain::EMISSIONS] + ranks[chain::EMISSIONS]);
}

OPERATOR(ChainPathPosteriors, chain::path_posteriors) {
    const chain::Sizes sizes(ranks, shapes);
    return {sizes.known() ? sizes.emissions / sizes.tags + sizes.emissions : -1};
}

OPERATOR(ChainDecode, chain::decode) {
    const chain::Sizes sizes(ranks, shapes);
    return {sizes.known() ? sizes.rows + sizes.emissions / sizes.tags : -1};
}

OPERATOR(ChainViterbi, chain::viterbi_scores) {
    const chain::Sizes sizes(ranks, shapes);           // one position less, and the scores: as many as the emissions
    return {sizes.known() ? sizes.emissions : -1};
}

// The number of paths is the size of the last input.
OPERATOR(ChainNBest, chain::n_best) {
    const chain::Sizes sizes(ranks, shapes);
    const int64_t n = shapes[chain::OWN][0];
    return {sizes.known() && n >= 0 ? n * (sizes.rows + sizes.emissions / sizes.tags) : -1};
}

// Counts of rows since the process began, for whoever wants to know which way they went.
extern "C" void ChainCounts(int64_t *by_products, int64_t *by_logarithms) {
    *by_products = chain::rows_by_products;
    *by_logarithms = chain::rows_by_logarithms;
}
