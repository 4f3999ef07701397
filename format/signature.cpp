#include "format/signature.h"

#include <fmt/format.h>
#include <sodium.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <string_view>
#include <system_error>

#include "base/guarded_path.h"
#include "base/read_text.h"

namespace mdl::format {
namespace {

constexpr std::string_view kHow = "make one with: openssl genpkey -algorithm ed25519 -out KEY.pem";
constexpr std::string_view kHowPublic = "write one with: openssl pkey -in KEY.pem -pubout -out PUBLIC.pem";
// The beginning of the text that is signed, so that no other use of the key can be taken for it.
constexpr std::string_view kContext = "mdl plan signature 1\n";
constexpr size_t kMostBytes = 65536;  // of a key file

// RFC 8410: what stands before the 32 bytes of the key.
constexpr uint8_t kPublicHead[] = {0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00};
constexpr uint8_t kPrivateHead[] = {0x30, 0x2e, 0x02, 0x01, 0x00, 0x30, 0x05, 0x06,
                                    0x03, 0x2b, 0x65, 0x70, 0x04, 0x22, 0x04, 0x20};
// The same with the public key behind it (RFC 5958, version 2).
constexpr uint8_t kPrivateHead2[] = {0x30, 0x51, 0x02, 0x01, 0x01, 0x30, 0x05, 0x06,
                                     0x03, 0x2b, 0x65, 0x70, 0x04, 0x22, 0x04, 0x20};
constexpr size_t kKeyBytes = 32;

Result<std::string> read_key_file(const std::string& path) {
  auto text = read_file(path, kMostBytes);
  if (!text) return Error{fmt::format("cannot read the key {}: {}", path, text.error().text)};
  if (text->size() > kMostBytes) return Error{fmt::format("{} is too long for a key", path)};
  return text;
}

std::string begin(std::string_view label) {
  return fmt::format("-----BEGIN {}-----", label);
}

// The bytes between the lines of a PEM label.
std::optional<std::vector<uint8_t>> decode(std::string_view text, std::string_view label) {
  const std::string head = begin(label), tail = fmt::format("-----END {}-----", label);
  const size_t start = text.find(head);
  const size_t end = start == std::string_view::npos ? start : text.find(tail, start);
  if (end == std::string_view::npos) return std::nullopt;
  const std::string_view body = text.substr(start + head.size(), end - start - head.size());
  std::vector<uint8_t> out(body.size());
  size_t size = 0;
  if (sodium_base642bin(out.data(), out.size(), body.data(), body.size(), " \t\r\n", &size, nullptr,
                        sodium_base64_VARIANT_ORIGINAL) != 0)
    return std::nullopt;
  out.resize(size);
  return out;
}

template <size_t N>
bool starts_with(const std::vector<uint8_t>& bytes, const uint8_t (&head)[N]) {
  return bytes.size() >= N && std::equal(std::begin(head), std::end(head), bytes.begin());
}

Result<PublicKey> read_public_key(const std::string& path) {
  auto text = read_key_file(path);
  if (!text) return text.error();
  auto bytes = decode(*text, "PUBLIC KEY");
  if (!bytes || !starts_with(*bytes, kPublicHead) || bytes->size() != sizeof kPublicHead + kKeyBytes)
    return Error{fmt::format("{} is no public Ed25519 key in PEM: {}", path, kHowPublic)};
  PublicKey out;
  std::copy_n(bytes->begin() + sizeof kPublicHead, kKeyBytes, out.bytes.begin());
  return out;
}

std::vector<uint8_t> message(std::span<const std::byte> file) {
  std::vector<uint8_t> out(kContext.size() + file.size());
  const auto rest = std::copy(kContext.begin(), kContext.end(), out.begin());
  std::transform(file.begin(), file.end(), rest, [](std::byte b) { return static_cast<uint8_t>(b); });
  return out;
}

}  // namespace

std::string name(const PublicKey& key) {
  std::string out(sodium_base64_ENCODED_LEN(kKeyBytes, sodium_base64_VARIANT_ORIGINAL), '\0');
  sodium_bin2base64(out.data(), out.size(), key.bytes.data(), key.bytes.size(),
                    sodium_base64_VARIANT_ORIGINAL);
  return "ed25519:" + std::string(out.c_str());
}

Result<SigningKey> SigningKey::read(const std::string& path) {
  if (sodium_init() < 0) return Error{"libsodium cannot be initialized"};
  auto text = read_key_file(path);
  if (!text) return text.error();
  if (text->find(begin("ENCRYPTED PRIVATE KEY")) != std::string::npos)
    return Error{
        fmt::format("{0} is protected by a pass phrase: write it without one with: openssl pkey -in {0} "
                    "-out KEY.pem",
                    path)};
  if (text->find(begin("PUBLIC KEY")) != std::string::npos)
    return Error{fmt::format("{} is a public key; the private one is needed to sign", path)};
  auto bytes = decode(*text, "PRIVATE KEY");
  sodium_memzero(text->data(), text->size());
  const bool plain =
      bytes && starts_with(*bytes, kPrivateHead) && bytes->size() == sizeof kPrivateHead + kKeyBytes;
  const bool both =
      bytes && starts_with(*bytes, kPrivateHead2) && bytes->size() > sizeof kPrivateHead2 + kKeyBytes;
  if (!plain && !both) return Error{fmt::format("{} is no private Ed25519 key in PEM: {}", path, kHow)};
  struct stat about {};
  if (stat(path.c_str(), &about) == 0 && S_ISREG(about.st_mode) && (about.st_mode & 077))
    return Error{
        fmt::format("others may read or change the private key {0}, so it is not used: chmod 600 {0}; "
                    "if somebody has read it, it must be replaced",
                    path)};
  SigningKey out;
  crypto_sign_seed_keypair(out.public_.bytes.data(), out.secret_.data(), bytes->data() + sizeof kPrivateHead);
  sodium_memzero(bytes->data(), bytes->size());
  return out;
}

SigningKey::~SigningKey() {
  sodium_memzero(secret_.data(), secret_.size());
}

std::array<uint8_t, 64> SigningKey::sign(std::span<const std::byte> file) const {
  const std::vector<uint8_t> text = message(file);
  std::array<uint8_t, 64> out{};
  crypto_sign_detached(out.data(), nullptr, text.data(), text.size(), secret_.data());
  return out;
}

bool is_signed(std::span<const std::byte> file, const PublicKey& key,
               std::span<const std::byte, 64> signature) {
  const std::vector<uint8_t> text = message(file);
  return sodium_init() >= 0 && crypto_sign_verify_detached(reinterpret_cast<const uint8_t*>(signature.data()),
                                                           text.data(), text.size(), key.bytes.data()) == 0;
}

Result<std::vector<TrustedKey>> read_trusted_keys(const std::string& given) {
  namespace fs = std::filesystem;
  auto real = guarded_path(given);
  if (!real) return Error{"no key is trusted that others could replace: " + real.error().text};
  const std::string& path = *real;
  std::vector<std::string> files;
  std::error_code problem;
  if (fs::is_directory(path, problem)) {
    for (fs::directory_iterator entry(path, problem), end; !problem && entry != end; entry.increment(problem))
      if (entry->path().extension() == ".pem") files.push_back(entry->path().string());
    if (problem) return Error{fmt::format("cannot read the keys in {}: {}", path, problem.message())};
    if (files.empty()) return Error{fmt::format("no key is trusted: {} has no file that ends in .pem", path)};
    std::sort(files.begin(), files.end());
  } else {
    files.push_back(path);
  }
  std::vector<TrustedKey> out;
  for (const std::string& file : files) {
    auto own = guarded_path(file);
    if (!own) return Error{"no key is trusted that others could replace: " + own.error().text};
    auto key = read_public_key(*own);
    if (!key) return key.error();
    out.push_back({*key, file});
  }
  return out;
}

}  // namespace mdl::format
