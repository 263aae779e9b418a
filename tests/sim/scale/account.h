// Whose memory it is: every allocation of the process carries the mark of who was at work when it
// was made, so the coordinator's share of a simulated job can be told. ftar-scale only; one thread.
#ifndef FTAR_TESTS_SIM_SCALE_ACCOUNT_H_
#define FTAR_TESTS_SIM_SCALE_ACCOUNT_H_

#include <cstddef>
#include <cstdint>

namespace ftar::sim {

enum class Role : uint8_t { kOther, kCoordinator, kRelay, kMember };
inline constexpr int kRoles = 4;

struct Account {
  size_t live_bytes = 0, peak_bytes = 0;
  int64_t cpu_ns = 0;
};
Account& AccountOf(Role role);
int64_t CpuNow();  // of the process: what others do on this machine does not count

// While it lives new memory is `role`'s.
class Owner {
 public:
  explicit Owner(Role role);
  ~Owner();
  Owner(const Owner&) = delete;
  Owner& operator=(const Owner&) = delete;

 private:
  const Role before_;
};

// And processor time, too.
class AtWork {
 public:
  explicit AtWork(Role role);
  ~AtWork();
  AtWork(const AtWork&) = delete;
  AtWork& operator=(const AtWork&) = delete;

 private:
  const Owner owner_;
  const Role role_;
  const int64_t began_ns_;
};

}  // namespace ftar::sim

#endif  // FTAR_TESTS_SIM_SCALE_ACCOUNT_H_
