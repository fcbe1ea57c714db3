// The operators that MindSpore calls.
//
// Each takes emissions (length, batch, tags) or (batch, length, tags) in float32, lengths (batch,) in any integers,
// transitions, start and end in float32, allowed (tags * tags + 2 * tags) bools or one where all are, settings in int32
// (one element, 1 for batch first), the operator's own inputs, and gives one flat array of float32.

#include "best.h"
#include "sums.h"

namespace chain {
namespace {

typedef void (*Operator)(const Arguments &, float *, int64_t);

int run(Operator compute, int count, void **data, int *ranks, int64_t **shapes, const char **types) {
    try {
        const Arguments arguments{data, ranks, shapes, types};
        compute(arguments, static_cast<float *>(data[count - 1]), arguments.size(count - 1));
        return 0;
    } catch (...) {
        return 1;
    }
}

int64_t product(const int64_t *shape, int rank) {
    int64_t size = 1;
    for (int axis = 0; axis < rank; axis++) {
        if (shape[axis] < 0) return -1;                // not known yet
        size *= shape[axis];
    }
    return size;
}

// Sizes of results from the shapes of inputs: -1 while one of them is not known.
struct Sizes {
    int64_t rows, emissions, tags;

    Sizes(int *ranks, int64_t **shapes)
        : rows(shapes[LENGTHS][0]), emissions(product(shapes[EMISSIONS], ranks[EMISSIONS])), tags(shapes[START][0]) {}

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

#define OPERATOR(NAME, FUNCTION)                                                                                     \
    extern "C" int NAME(int count, void **data, int *ranks, int64_t **shapes, const char **types, void *, void *) {  \
        return chain::run(chain::FUNCTION, count, data, ranks, shapes, types);                                       \
    }                                                                                                                \
    extern "C" std::vector<int64_t> NAME##InferShape(int *ranks, int64_t **shapes, void *)

OPERATOR(ChainNormalizer, normalizer) { return chain::size_of_packed(ranks, shapes); }

OPERATOR(ChainLoss, loss) { return chain::size_of_packed(ranks, shapes); }

OPERATOR(ChainGradients, gradients) { return chain::size_of_gradients(ranks, shapes); }

OPERATOR(ChainPathGradients, path_gradients) { return chain::size_of_gradients(ranks, shapes); }

OPERATOR(ChainViterbiGradients, viterbi_gradients) { return chain::size_of_gradients(ranks, shapes); }

OPERATOR(ChainMarginals, marginals) {
    return std::vector<int64_t>(shapes[chain::EMISSIONS], shapes[chain::EMISSIONS] + ranks[chain::EMISSIONS]);
}

OPERATOR(ChainPathPosteriors, path_posteriors) {
    const chain::Sizes sizes(ranks, shapes);
    return {sizes.known() ? sizes.emissions / sizes.tags + sizes.emissions : -1};
}

OPERATOR(ChainDecode, decode) {
    const chain::Sizes sizes(ranks, shapes);
    return {sizes.known() ? sizes.rows + sizes.emissions / sizes.tags : -1};
}

OPERATOR(ChainViterbi, viterbi_scores) {
    const chain::Sizes sizes(ranks, shapes);           // one position less, and the scores: as many as the emissions
    return {sizes.known() ? sizes.emissions : -1};
}

// The number of paths is the size of the last input.
OPERATOR(ChainNBest, n_best) {
    const chain::Sizes sizes(ranks, shapes);
    const int64_t n = shapes[chain::OWN][0];
    return {sizes.known() && n >= 0 ? n * (sizes.rows + sizes.emissions / sizes.tags) : -1};
}

// Counts of rows since the process began, for whoever wants to know which way they went.
extern "C" void ChainCounts(int64_t *by_products, int64_t *by_logarithms) {
    *by_products = chain::rows_by_products;
    *by_logarithms = chain::rows_by_logarithms;
}
