// The part of an ELF64 relocatable object that a plan uses, read from untrusted bytes.
//
// LLVM's ELF reader stays behind this header. It is used only through functions that
// return Expected<>, on an aligned copy; names are looked up only within string tables
// that it has checked to end in zero. Everything below is copied out, so nothing that
// follows can reach outside the file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "format/signature.h"

namespace mdl::plan {

inline constexpr size_t kMaxPlanBytes = 64u << 20;

struct ObjectSymbol {
  std::string name;
  bool defined = false;   // in any section
  bool in_text = false;   // in .text
  bool function = false;  // STT_FUNC
  uint64_t offset = 0;    // in its section
  uint64_t size = 0;
};

struct ObjectRelocation {
  uint64_t offset = 0;  // in .text
  uint32_t type = 0;    // of the machine
  uint32_t symbol = 0;  // index into symbols, in range
  int64_t addend = 0;
};

struct ObjectFile {
  uint16_t machine = 0;  // e_machine
  std::string checksum;  // hex
  std::optional<format::PublicKey> signer;
  std::vector<std::byte> text;
  std::string manifest;
  std::vector<ObjectSymbol> symbols;
  std::vector<ObjectRelocation> relocations;  // of .text
};

// The bytes of a plan's file; of a longer one so many that read_object() names the limit.
Result<std::string> read_plan_bytes(const std::string& path);

// Checks the ELF header, the checksum over the whole file, the signature where there is one, and that the
// sections a plan needs are there once. Errors have Status::plan_rejected.
Result<ObjectFile> read_object(std::span<const std::byte> bytes);

// The error of a plan that is not as mdlc writes them.
Error reject(std::string text);

}  // namespace mdl::plan
