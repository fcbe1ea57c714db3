// An operator as MindSpore calls it: its arguments, and how its work is shared out over threads.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <new>
#include <sched.h>
#include <string>
#include <thread>
#include <vector>

namespace native {

// What MindSpore hands over: all inputs, then the output.
struct Arguments {
    void **data;
    int *ranks;
    int64_t **shapes;
    const char **types;

    const float *floats(int i) const { return static_cast<const float *>(data[i]); }

    int64_t size(int i) const {
        int64_t count = 1;
        for (int axis = 0; axis < ranks[i]; axis++) count *= shapes[i][axis];
        return count;
    }

    // Integers of any type, those outside as the nearest inside.
    std::vector<int64_t> integers(int i, int64_t least, int64_t most) const {
        const std::string type = types[i];
        if (type == "int32") return within<int32_t>(i, least, most);
        if (type == "int64") return within<int64_t>(i, least, most);
        if (type == "int16") return within<int16_t>(i, least, most);
        if (type == "int8") return within<int8_t>(i, least, most);
        if (type == "uint8") return within<uint8_t>(i, least, most);
        if (type == "uint16") return within<uint16_t>(i, least, most);
        if (type == "uint32") return within<uint32_t>(i, least, most);
        return within<uint64_t>(i, least, most);
    }

   private:
    template <class Integer>
    std::vector<int64_t> within(int i, int64_t least, int64_t most) const {
        const Integer *given = static_cast<const Integer *>(data[i]);
        std::vector<int64_t> values(size(i));
        for (size_t n = 0; n < values.size(); n++) {
            if (given[n] > Integer(0) && uint64_t(given[n]) > uint64_t(most)) {
                values[n] = most;
            } else {
                values[n] = std::max(least, int64_t(given[n]));
            }
        }
        return values;
    }
};

inline int processors() {
#ifdef PROCESSORS
    return PROCESSORS;                                 // for tests of what larger machines do
#endif
    cpu_set_t set;
    return sched_getaffinity(0, sizeof set, &set) == 0 ? std::max(1, std::min(CPU_COUNT(&set), 16)) : 1;
}

// Calls work(index, space) for each index below count, with a space of its own for each thread. `cost` is about the
// number of products that all of it takes: a thread is worth starting for some 100 microseconds.
template <class Space, class Work>
void share_out(size_t count, double cost, const Work &work) {
    static const int available = processors();
    const int threads = int(std::min({double(available), double(count), 1.0 + cost / 4e5}));
    std::atomic<size_t> next{0};
    std::atomic<bool> failed{false};
    auto run = [&] {
        try {
            Space space;
            for (size_t i = next++; i < count && !failed; i = next++) work(i, space);
        } catch (...) {                                // memory that is not there
            failed = true;
        }
    };
    std::vector<std::thread> others;
    for (int i = 1; i < threads; i++) {
        try {
            others.emplace_back(run);
        } catch (...) {                                // no thread can be had: the others do it all
            break;
        }
    }
    run();
    for (std::thread &other : others) other.join();
    if (failed) throw std::bad_alloc();
}

// Calls compute(arguments, output, its size); returns what MindSpore takes for success and failure.
template <class Compute>
int run(const Compute &compute, int count, void **data, int *ranks, int64_t **shapes, const char **types) {
    try {
        const Arguments arguments{data, ranks, shapes, types};
        compute(arguments, static_cast<float *>(data[count - 1]), arguments.size(count - 1));
        return 0;
    } catch (...) {
        return 1;
    }
}

// The size of an array, -1 while it is not known.
inline int64_t product(const int64_t *shape, int rank) {
    int64_t size = 1;
    for (int axis = 0; axis < rank; axis++) {
        if (shape[axis] < 0) return -1;
        size *= shape[axis];
    }
    return size;
}

}  // namespace native

// A function of this name that calls FUNCTION(arguments, output, its size); the braces that follow give the shape of the
// output from the shapes of the inputs.
#define OPERATOR(NAME, FUNCTION)                                                                                     \
    extern "C" int NAME(int count, void **data, int *ranks, int64_t **shapes, const char **types, void *, void *) {  \
        return native::run(FUNCTION, count, data, ranks, shapes, types);                                             \
    }                                                                                                                \
    extern "C" std::vector<int64_t> NAME##InferShape(int *ranks, int64_t **shapes, void *)
