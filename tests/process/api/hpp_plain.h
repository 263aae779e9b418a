// ftar.hpp in a file that is compiled without exceptions, beside others of the same program.
#ifndef FTAR_TESTS_PROCESS_API_HPP_PLAIN_H_
#define FTAR_TESTS_PROCESS_API_HPP_PLAIN_H_

namespace process {

bool AsksWithoutExceptions();

}  // namespace process

#endif  // FTAR_TESTS_PROCESS_API_HPP_PLAIN_H_
