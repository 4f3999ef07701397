// The call frame information of one object: .eh_frame, parsed to a sorted table of FDEs,
// and the rules that hold at one pc.
//
// LLVM's DWARFDebugFrame was considered and not used: it parses every instruction of every
// FDE into vectors and maps (seconds for node, and the walk happens while the target is
// stopped). Here the table costs one pass over the entry headers, and a row is computed by
// running an entry's instructions up to the pc, without allocation. (LSB Core, "Exception
// Frames"; DWARF 5, section 6.4.2.)
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "runtime/image/image.h"
#include "runtime/image/memory.h"

namespace mdl::image {

// A pointer encoded as DW_EH_PE_... describes, at `at` of `bytes`, which run at `address`.
// Moves `at` behind it. Nothing when the bytes end or the encoding is not one of a process.
std::optional<uint64_t> read_encoded_pointer(std::span<const std::byte> bytes, uint64_t address, uint64_t& at,
                                             uint8_t encoding, uint64_t bias);

struct Fde {
  uint64_t start = 0, end = 0;  // code, run-time addresses
  uint32_t cie = 0;             // index into the table's CIEs
  uint32_t at = 0;              // offset of its addresses in the section: there may be millions of it
};

struct Cie {
  uint64_t code_align = 0;
  int64_t data_align = 0;
  uint64_t return_register = 0;
  uint8_t pointer_encoding = 0;
  uint8_t lsda_encoding = 0xff;
  bool has_augmentation_data = false;
  bool is_signal_frame = false;
  uint32_t program = 0, program_end = 0;
};

struct Rule {
  enum class Kind : uint8_t { same, undefined, at_cfa, is_cfa, at_expression, is_expression, in_register };
  Kind kind = Kind::same;
  int64_t value = 0;                            // offset from the CFA, or a register
  uint32_t expression = 0, expression_end = 0;  // in the section
};

// By DWARF number. How many of them the machine has, and which is which: arch::Description::frames. Those
// beyond are never looked at.
inline constexpr size_t kMostFrameRegisters = 33;
using RegisterFile = std::array<uint64_t, kMostFrameRegisters>;
using FrameValues = std::array<std::optional<uint64_t>, kMostFrameRegisters>;  // as far as they are known

struct Row {
  bool cfa_is_expression = false;
  uint64_t cfa_register = 0;
  int64_t cfa_offset = 0;
  uint32_t expression = 0, expression_end = 0;
  std::array<Rule, kMostFrameRegisters> registers;
};

// The canonical frame address at a pc: a register and an offset, or an expression that is not evaluated here.
struct CfaRule {
  bool is_expression = false;
  uint64_t base = 0;
  int64_t offset = 0;
  bool operator==(const CfaRule&) const = default;
};

class FrameTable {
 public:
  // `section` are the bytes of .eh_frame, which the process has at `address`. A malformed entry ends the
  // table; the entries before it are kept.
  FrameTable(std::vector<std::byte> section, uint64_t address, uint64_t bias);

  const std::vector<Fde>& entries() const { return entries_; }  // by start, not overlapping in sound files
  const Fde* find(uint64_t pc) const;
  const Cie& cie(const Fde& entry) const { return cies_[entry.cie]; }
  std::span<const std::byte> section() const { return section_; }
  uint64_t lsda(const Fde& entry) const;  // run-time address, 0 = none

  // The rules at `pc` of `entry`; nothing when its instructions are malformed. `steps`: how many bytes of them were
  // executed.
  std::optional<Row> row_at(const Fde& entry, uint64_t pc, uint64_t* steps = nullptr) const;
  // One rule of that row. Instructions that are many are executed once: a function of many jump tables is asked
  // about thousands of its places (Valgrind's disassembler: 12,000 instructions, 20,000 places).
  std::optional<CfaRule> cfa_at(const Fde& entry, uint64_t pc, uint64_t& steps) const;

 private:
  std::optional<Cie> read_cie(uint64_t at, uint64_t end) const;
  // What is behind its addresses.
  struct Body {
    uint64_t lsda = 0;
    uint32_t program = 0, program_end = 0;  // offsets of its instructions in the section
  };
  std::optional<Fde> read_fde(uint64_t at, uint64_t end, uint32_t cie) const;
  std::optional<Body> read_body(const Fde& entry) const;
  // The rule from `start` on, without one where the instructions are malformed. Small, for a file may have as
  // many as its instructions have thirds of bytes.
  struct CfaFrom {
    uint32_t start = 0;  // behind that of the entry
    int32_t offset = 0;
    uint16_t base = 0;
    bool is_known = false, is_expression = false;
  };
  using CfaList = std::vector<CfaFrom>;
  static CfaFrom cfa_from(const Fde& entry, uint64_t start, const std::optional<CfaRule>& rule);
  CfaList list_cfa(const Fde& entry, const Body& body, uint64_t& steps) const;

  std::vector<std::byte> section_;
  uint64_t address_;
  uint64_t bias_;
  std::vector<Cie> cies_;
  std::vector<Fde> entries_;
  mutable std::mutex lists_mutex_;             // functions are analysed in several threads
  mutable std::map<uint32_t, CfaList> lists_;  // of entries with many instructions, by Fde::at
};

// True when the CFA at `pc` is known and is not the one of a function's first instruction
// (Description::Frames::cfa_at_entry): a frame is open, so a jump from or to here does not leave the
// function.
bool frame_is_open(const FrameTable& table, uint64_t pc, const Budget& budget);
// True when it is known and is that one.
bool frame_is_closed(const FrameTable& table, uint64_t pc, const Budget& budget);

}  // namespace mdl::image
