// Jobs for the API's process tests: a job of one, and two members in this process. Everything goes
// through ftar.h, as a user's program would. One thread unless a test says otherwise.
#ifndef FTAR_TESTS_PROCESS_API_JOBS_H_
#define FTAR_TESTS_PROCESS_API_JOBS_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "ftar/ftar.h"

namespace process {

using Knobs = std::vector<std::pair<std::string, std::string>>;

inline ftarErrorInfo LastError() {
  ftarErrorInfo info = FTAR_ERROR_INFO_INIT;
  EXPECT_EQ(ftarGetLastError(&info), FTAR_OK);
  return info;
}

inline constexpr int64_t kSecondNs = 1'000'000'000;
// Longer than anything here takes on a busy machine; a test that waits for it has failed.
inline constexpr int64_t kLongNs = 20 * kSecondNs;

// Joins with knobs set.
inline ftarResult_t Join(ftarJobConfig config, const Knobs& knobs, ftarJob_t* job) {
  EXPECT_EQ(ftarConfigCreate(&config.config), FTAR_OK);
  for (const auto& [name, value] : knobs) {
    EXPECT_EQ(ftarConfigSet(config.config, name.c_str(), value.c_str()), FTAR_OK) << name;
  }
  const ftarResult_t result = ftarJobJoin(&config, job);
  EXPECT_EQ(ftarConfigDestroy(config.config), FTAR_OK);
  return result;
}

}  // namespace process

#endif  // FTAR_TESTS_PROCESS_API_JOBS_H_
