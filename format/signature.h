// Signatures of plans: who made a plan, not whether it is safe. A signed plan is verified like any other
// (runtime/plan/verify.h), and a plan of a trusted key can still be wrong.
//
// Ed25519 (RFC 8032), by libsodium. A signature depends on the key and the file only, so a signed plan is as
// reproducible as one that is not. Keys are files as `openssl genpkey -algorithm ed25519` writes them:
// PKCS #8 and SubjectPublicKeyInfo (RFC 8410) in PEM. Both are of one fixed form for this kind of key, so
// the fixed bytes are compared and nothing of ASN.1 is interpreted.
//
// The signature is of the whole file, with the signature and the checksum taken as zero; the checksum then
// covers the signature, too (docs/plan-format.md).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"

namespace mdl::format {

// Its contents: the public key, then the signature.
inline constexpr const char* kSignatureSection = ".mdl.signature";
inline constexpr size_t kSignatureSectionBytes = 32 + 64;

struct PublicKey {
  std::array<uint8_t, 32> bytes{};
  bool operator==(const PublicKey&) const = default;
};
// "ed25519:" and the key in base64, which is how the line of its PEM file ends.
std::string name(const PublicKey& key);

// A private key; wiped when it goes away.
class SigningKey {
 public:
  // Errors name the file and say how such a key is made. A file that others may read is refused.
  static Result<SigningKey> read(const std::string& path);
  ~SigningKey();
  SigningKey(const SigningKey&) = default;
  SigningKey& operator=(const SigningKey&) = default;

  const PublicKey& public_key() const { return public_; }
  // `file` is the plan with zeros for the checksum and the signature.
  std::array<uint8_t, 64> sign(std::span<const std::byte> file) const;

 private:
  SigningKey() = default;
  PublicKey public_;
  std::array<uint8_t, 64> secret_{};
};

// `file` as above.
bool is_signed(std::span<const std::byte> file, const PublicKey& key,
               std::span<const std::byte, 64> signature);

struct TrustedKey {
  PublicKey key;
  std::string file;
};
// The public keys of a file, or of all files of a directory that end in .pem; at least one. Nobody but root
// and the user may be able to change them (base/guarded_path.h).
Result<std::vector<TrustedKey>> read_trusted_keys(const std::string& path);

}  // namespace mdl::format
