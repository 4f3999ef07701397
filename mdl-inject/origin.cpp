#include "mdl-inject/origin.h"

#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string_view>
#include <system_error>

namespace mdl::inject {

std::string default_keys() {
  const char* named = secure_getenv("MDL_TRUSTED_KEYS");
  return named && *named ? named : "/etc/mdl/trusted-keys";
}

bool names_keys(const std::string& word) {
  std::error_code problem;
  if (word.ends_with(".pem") || std::filesystem::is_directory(word, problem)) return true;
  constexpr std::string_view kPem = "-----BEGIN ";
  std::string head(kPem.size(), '\0');
  std::ifstream file(word, std::ios::binary);
  return file.read(head.data(), static_cast<std::streamsize>(head.size())) && head == kPem;
}

Result<std::string> check_origin(const plan::Plan& plan, const PlanFile& file, const Options& options) {
  if (!file.trusted) return std::string();
  if (!plan.signer)
    return Error{fmt::format("{} is not signed, and --require-signed wants it to be: mdlc --sign KEY.pem",
                             options.plan),
                 Status::plan_rejected};
  for (const format::TrustedKey& key : *file.trusted)
    if (key.key == *plan.signer) return key.file;
  return Error{fmt::format("{} is signed with {}, which is not one of the {} trusted keys of {}",
                           options.plan, name(*plan.signer), file.trusted->size(), *options.trusted),
               Status::plan_rejected};
}

}  // namespace mdl::inject
