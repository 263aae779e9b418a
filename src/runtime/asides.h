// Memory of the library for the sums of shared operations in place (rule F3): host-mates read them
// there, and they land in the user's buffer when all members have all of them. So no input has to
// be saved, unless the operation leaves the fast path first, and of who is out meanwhile none is
// touched.
//
// What a block holds is written over by an operation of its group alone whose lines were seen, that
// is when each of its members has let its own land. Who is no member any more may read it still: in
// every view the block is another one, and the old one stays as long as somebody holds it here or
// has it mapped.
#ifndef FTAR_RUNTIME_ASIDES_H_
#define FTAR_RUNTIME_ASIDES_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <utility>

#include "base/ids.h"
#include "transport/exported_memory.h"

namespace ftar::runtime {

class Asides {
 public:
  explicit Asides(std::shared_ptr<transport::ExportedMemory> exports)
      : exports_(std::move(exports)) {}
  ~Asides();
  Asides(const Asides&) = delete;
  Asides& operator=(const Asides&) = delete;

  // The group's block, of at least `bytes`, its pages there. Others see it until nobody holds it.
  // Null: there is no such memory.
  std::shared_ptr<std::byte> Take(TimeNs now, GroupKey group, uint64_t bytes, Epoch view);
  // Frees what was last taken before `now - idle_ns`.
  void Trim(TimeNs now, TimeNs idle_ns);

 private:
  struct Block {
    std::shared_ptr<std::byte> memory;
    uint64_t bytes = 0;
    Epoch view = 0;
    TimeNs taken_ns = 0;
  };

  const std::shared_ptr<transport::ExportedMemory> exports_;
  std::map<GroupKey, Block> blocks_;
};

}  // namespace ftar::runtime

#endif  // FTAR_RUNTIME_ASIDES_H_
