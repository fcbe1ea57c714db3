// The inputs that all operators of the chain share, and the rows that need a recursion.
#pragma once

#include "../../native/operator.h"
#include "exact.h"
#include "paths.h"
#include "scaled.h"

namespace chain {

using native::ANY;
using native::Arguments;
using native::share_out;
using native::Type;

const int EMISSIONS = 0, LENGTHS = 1, TRANSITIONS = 2, START = 3, END = 4, ALLOWED = 5, SETTINGS = 6, OWN = 7;

// The sizes of a call. The constructor checks all inputs that the operators share.
struct Checked {
    int64_t rows, length, tags, emissions;

    Checked(const Arguments &arguments, int own) {
        arguments.expect_inputs(OWN + own);
        arguments.expect(SETTINGS, "settings", Type::INT32, {1});
        arguments.expect(EMISSIONS, "emissions", Type::FLOATS, {ANY, ANY, ANY});
        const int64_t *shape = arguments.shapes[EMISSIONS];
        rows = shape[batch_first(arguments) ? 0 : 1];
        length = shape[batch_first(arguments) ? 1 : 0];
        tags = shape[2];
        emissions = rows * length * tags;
        arguments.expect(LENGTHS, "seq_length", Type::INTEGERS, {rows});
        arguments.expect(TRANSITIONS, "transitions", Type::FLOATS, {tags, tags});
        arguments.expect(START, "start_transitions", Type::FLOATS, {tags});
        arguments.expect(END, "end_transitions", Type::FLOATS, {tags});
        const int64_t allowed = arguments.size(ALLOWED);
        arguments.expect(ALLOWED, "constraints", Type::BOOLS, {allowed == 1 ? 1 : tags * tags + 2 * tags});
    }

    static bool batch_first(const Arguments &arguments) {
        return static_cast<const int32_t *>(arguments.data[SETTINGS])[0] != 0;
    }

    int64_t packed() const { return rows + emissions + rows * tags * tags; }
};

struct Call {
    bool batch_first;
    Model model;
    Batch batch;
    std::vector<Group> groups;             // of rows that need a recursion
    std::vector<int64_t> empty, faulty;    // rows of length 0; rows with nan or +inf in their scores

    explicit Call(const Arguments &arguments)
        : batch_first(Checked::batch_first(arguments)),
          model(arguments.floats(TRANSITIONS), arguments.floats(START), arguments.floats(END),
                arguments.size(ALLOWED) > 1 ? static_cast<const bool *>(arguments.data[ALLOWED]) : nullptr,
                arguments.size(START)) {
        const int64_t *shape = arguments.shapes[EMISSIONS];
        batch.emissions = arguments.floats(EMISSIONS);
        batch.rows = shape[batch_first ? 0 : 1];
        batch.length = shape[batch_first ? 1 : 0];
        batch.tags = model.tags;
        batch.row_stride = batch_first ? batch.length * batch.tags : batch.tags;
        batch.time_stride = batch_first ? batch.tags : batch.rows * batch.tags;
        batch.lengths = arguments.integers(LENGTHS, -1, batch.length + 1);
        std::vector<int64_t> order;
        for (int64_t row = 0; row < batch.rows; row++) {
            int64_t &length = batch.lengths[row];
            batch.void_length.push_back(length < 0 || length > batch.length);
            length = std::min(std::max(length, int64_t(0)), batch.length);
            if (length == 0) {
                empty.push_back(row);
            } else if (model.faulty || batch.is_faulty_row(row)) {
                faulty.push_back(row);
            } else {
                order.push_back(row);
            }
        }
        // Group rows of similar length, so that no lane is idle for long.
        std::stable_sort(order.begin(), order.end(),
                         [&](int64_t a, int64_t b) { return batch.lengths[a] > batch.lengths[b]; });
        for (size_t i = 0; i < order.size(); i++) {
            if (i % LANES == 0) groups.emplace_back();
            groups.back().add(order[i], batch.lengths[order[i]]);
        }
    }

    bool is_void(int64_t row) const { return batch.void_length[row]; }
};

inline double cost_of(const Call &call, double each) {
    double positions = 0;
    for (const Group &group : call.groups) positions += double(group.longest) * LANES;
    return each * positions * double(call.model.tags) * double(call.model.tags + 8);
}

inline void clear(float *out, int64_t count) { std::fill_n(out, count, 0.0f); }

// Gradients by transitions, start and end. In a result they follow the gradients by emissions.
struct ScoreGradients {
    std::vector<double> by_transitions, by_start, by_end;

    explicit ScoreGradients(int64_t tags) : by_transitions(tags * tags), by_start(tags), by_end(tags) {}

    // Forbidden scores have gradient 0.
    void write(const Call &call, float *out) const {
        float *to = out + call.batch.rows * call.batch.length * call.batch.tags;
        auto put = [&](const std::vector<double> &values, const std::vector<double> &scores) {
            for (size_t i = 0; i < values.size(); i++) *to++ = is_forbidden(scores[i]) ? 0.0f : float(values[i]);
        };
        put(by_transitions, call.model.transitions);
        put(by_start, call.model.start);
        put(by_end, call.model.end);
    }
};

struct Space {
    Sums sums;
    Exact exact;
    Search search;
};

}  // namespace chain
