// MemberCard.addresses: entries "name=value" joined by ';'. Values are opaque outside their
// transport. Pure; any thread.
#ifndef FTAR_WIRE_ADDRESSES_H_
#define FTAR_WIRE_ADDRESSES_H_

#include <string>
#include <string_view>

namespace ftar::wire {

// The value of the first entry of that name; empty if there is none.
inline std::string FindAddress(std::string_view addresses, std::string_view name) {
  while (!addresses.empty()) {
    const size_t end = addresses.find(';');
    const std::string_view entry = addresses.substr(0, end);
    if (entry.size() > name.size() && entry[name.size()] == '=' &&
        entry.substr(0, name.size()) == name) {
      return std::string(entry.substr(name.size() + 1));
    }
    addresses = end == std::string_view::npos ? std::string_view() : addresses.substr(end + 1);
  }
  return "";
}

}  // namespace ftar::wire

#endif  // FTAR_WIRE_ADDRESSES_H_
