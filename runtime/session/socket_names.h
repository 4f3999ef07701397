// The names of sockets that a process has: who is at the other end.
//
// A descriptor that is a socket is `socket:[INODE]` at the hit (arch/resident.h), which tells sockets apart as long as
// fewer than 2^32 were made. /proc/PID/net has the peers of those that are still there when they are first asked for.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

namespace mdl::inject {

// By inode, from the text of /proc/PID/net/tcp and its kind, or of unix: `127.0.0.1:6379`, `[::1]:80`, `unix:/run/x.sock`;
// of one that is not connected `local 0.0.0.0:80`.
void read_internet_sockets(std::string_view table, std::map<uint64_t, std::string>& out);
void read_unix_sockets(std::string_view table, std::map<uint64_t, std::string>& out);

class SocketNames {
 public:
  explicit SocketNames(pid_t pid) : pid_(pid) {}

  // The name of what a descriptor was open for: of a socket `/Socket`'s, of anything else the text itself.
  std::string name_of(const std::string& text);
  // The tables are read again for the next socket.
  void forget() { is_read_ = false; }

 private:
  void read();

  pid_t pid_;
  bool is_read_ = false;
  std::map<uint64_t, std::string> names_;
};

}  // namespace mdl::inject
