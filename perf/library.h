// Libraries of CUDA's that are found when they are asked for, since ftar-perf links none of them.
// Any thread. What is opened stays open.
#ifndef FTAR_PERF_LIBRARY_H_
#define FTAR_PERF_LIBRARY_H_

#include <initializer_list>
#include <string>

namespace ftar::perf {

// `path`, or, being empty, `file` (as libcudart.so) by the loader's own way, with one of `versions`
// behind it, and where CUDA is installed. Null, and why: `option` would have named one.
void* OpenLibrary(const std::string& path, const std::string& file,
                  std::initializer_list<const char*> versions, const std::string& option,
                  std::string* why);

}  // namespace ftar::perf

#endif  // FTAR_PERF_LIBRARY_H_
