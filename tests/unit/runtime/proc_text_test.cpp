#include "base/proc_text.h"

#include <gtest/gtest.h>

namespace mdl {
namespace {

TEST(ProcText, FieldsOfStatAreBehindTheName) {
  const std::string_view stat = "12 (a) Z 1 (b) R 7) S 1 12 0\n";
  EXPECT_EQ(stat_field(stat, 3), "S");
  EXPECT_EQ(stat_field(stat, 4), "1");
  EXPECT_EQ(stat_field(stat, 6), "0");
  EXPECT_EQ(stat_field(stat, 7), "");
  EXPECT_EQ(stat_field(stat, 2), "");
}

TEST(ProcText, NoStatHasNoFields) {
  for (const char* stat : {"", "12", "12 (a)", "12 (a) ", "\n"}) EXPECT_EQ(stat_field(stat, 3), "") << stat;
}

TEST(ProcText, ValuesOfStatusAreOfWholeKeys) {
  const std::string_view status = "Name:\tUid:\\t0\nUmask:\t0022\nPPid:\t1\nPid:\t7\nGroups:\t4 24 \n";
  EXPECT_EQ(status_value(status, "Pid"), "7");
  EXPECT_EQ(status_value(status, "PPid"), "1");
  EXPECT_EQ(status_value(status, "Uid"), "");
  EXPECT_EQ(status_value(status, "Groups"), "4 24 ");
  EXPECT_EQ(status_value("", "Pid"), "");
  EXPECT_EQ(status_value("Pid:\t9", "Pid"), "9");
}

}  // namespace
}  // namespace mdl
