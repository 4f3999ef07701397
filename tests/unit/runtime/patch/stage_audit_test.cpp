#include "runtime/patch/stage_audit.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace mdl::patch {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

// Nobody should report what is known: OpenSSL and libgcrypt have text among their code.
TEST(AuditWarning, NamesTheReasonsThatAreNoErrors) {
  EXPECT_THAT(audit_warning(2), StartsWith("2 points were refused by the audit"));
  EXPECT_THAT(audit_warning(2), HasSubstr("neither a short jump nor a word of data"));
}

TEST(AuditWarning, CountsOnePoint) {
  EXPECT_THAT(audit_warning(1), StartsWith("1 point was refused"));
}

}  // namespace
}  // namespace mdl::patch
