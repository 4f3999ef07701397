#include "runtime/session/socket_names.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace mdl::inject {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::Pair;

constexpr const char* kHeading =
    "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n";

TEST(SocketNames, PeersOfTheInternet) {
  std::map<uint64_t, std::string> names;
  read_internet_sockets(std::string(kHeading) +
                            "   0: 0100007F:18EB 0200000A:C350 01 00000000:00000000 00:00000000 00000000     "
                            "0        0 42 1 0 20\n"
                            "   1: 00000000:0050 00000000:0000 0A 00000000:00000000 00:00000000 00000000     "
                            "0        0 43 1 0\n"
                            "   2: 0100007F:18EB 0200000A:C351 06 00000000:00000000 03:00000000 00000000     "
                            "0        0 0 3 0\n",
                        names);
  EXPECT_THAT(names, ElementsAre(Pair(42, "10.0.0.2:50000"), Pair(43, "local 0.0.0.0:80")));
  names.clear();
  read_internet_sockets(
      std::string(kHeading) +
          "   0: 00000000000000000000000001000000:0050 00000000000000000000000001000000:C350 01 "
          "00000000:00000000 00:00000000 00000000     0        0 44 1\n"
          "   1: 0000000000000000FFFF00000100007F:0050 0000000000000000FFFF00000100007F:C350 01 "
          "00000000:00000000 00:00000000 00000000     0        0 45 1\n",
      names);
  EXPECT_THAT(names, ElementsAre(Pair(44, "[::1]:50000"), Pair(45, "127.0.0.1:50000")));
}

TEST(SocketNames, LinesThatAreNone) {
  std::map<uint64_t, std::string> names;
  for (const char* line :
       {"", "0: 1", "   0: 0100007F 0200000A:C350 01 0:0 0:0 0 0 0 42\n",
        "   0: 0100007F:18EB 0200000A:C350 01\n", "   0: 010000ZZ:18EB 0200000A:C350 01 0:0 0:0 0 0 0 42\n",
        "   0: 0100007F:18EB 0200000A:C350 01 0:0 0:0 0 0 0 -42\n"})
    read_internet_sockets(std::string(kHeading) + line, names);
  EXPECT_THAT(names, IsEmpty());
}

TEST(SocketNames, UnixSockets) {
  std::map<uint64_t, std::string> names;
  read_unix_sockets(
      "Num       RefCount Protocol Flags    Type St Inode Path\n"
      "0000000000000000: 00000002 00000000 00010000 0001 01 50 /run/a b.sock\n"
      "0000000000000000: 00000002 00000000 00010000 0001 01 51 @abstract\n"
      "0000000000000000: 00000003 00000000 00000000 0001 03 52\n",
      names);
  EXPECT_THAT(names, ElementsAre(Pair(50, "unix:/run/a b.sock"), Pair(51, "unix:@abstract")));
}

// A path with a line's end in it looks like the line of another socket, which has one of its own.
TEST(SocketNames, APathThatLooksLikeALine) {
  std::map<uint64_t, std::string> names;
  read_unix_sockets(
      "Num       RefCount Protocol Flags    Type St Inode Path\n"
      "0000000000000000: 00000002 00000000 00010000 0001 01 60 /tmp/x\n"
      "0000000000000000: 00000002 00000000 00010000 0001 01 61 /run/trusted\n"
      "0000000000000000: 00000003 00000000 00000000 0001 03 61\n",
      names);
  EXPECT_THAT(names, ElementsAre(Pair(60, "unix:/tmp/x")));
}

}  // namespace
}  // namespace mdl::inject
