#include "tests/exec/batch.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>

#include "backend/mc_emitter.h"
#include "backend/plan_writer.h"
#include "format/halves.h"
#include "runtime/plan/verify.h"
#include "tests/exec/object.h"
#include "tests/exec/random_snippet.h"

namespace mdl::exec {
namespace {

using Functions = std::map<std::string, Function>;
using format::CellKind;

constexpr uint64_t kBase = 0x10'0000'0000;  // below 2^38: riscv64 with three levels of page tables
constexpr size_t kHeaderWords = 4;
// The blob: header, code, then the runs' memory. On riscv64 the jump to the end reaches 1 MiB.
constexpr size_t kCodeBytes = 1 << 20, kLargestStencil = 1 << 16;

bool has_second(CellKind kind) {
  return kind != CellKind::counter && kind != CellKind::flag && kind != CellKind::call;
}

uint64_t pattern(size_t word) {
  return 0x5a5a0000'0000a5a5u ^ (word << 20);
}

// What is compiled: a function of each job that is not refused, the guard, and the host's own.
struct Code {
  Functions functions;
  plan::Plan plan;  // read as the injector reads it; empty when it does not know the target
};

std::string name_of(size_t job, const ir::Snippet& snippet) {
  return fmt::format("s{}_{}", job, format::info(snippet.point).name);
}

Result<Code> compile(const Host& host, const std::vector<Job>& jobs, std::vector<Verdict>& verdicts) {
  const backend::Target& target = *backend::find_target(host.name);
  Program program;
  for (size_t i = 0; i < jobs.size(); i++) {
    if (auto stencil = backend::make_stencil(jobs[i].code, target); !stencil) {
      verdicts[i].refused = stencil.error().text;
      continue;
    }
    program.snippets.push_back(jobs[i].code);
    program.snippets.back().name = name_of(i, jobs[i].code);
  }
  std::vector<backend::RefusedSnippet> refusals;
  backend::PlanText plan = backend::make_plan(program, target, refusals);
  if (!refusals.empty()) return Error{refusals[0].text};
  for (size_t i = 0, made = 0; i < jobs.size(); i++) {
    if (!verdicts[i].refused.empty()) continue;
    if (!jobs[i].peepholes) {
      plan.stencils[made] = *backend::make_stencil(program.snippets[made], target, false);
      plan.manifest.stencils[made] = plan.stencils[made].info;
    }
    made++;
  }
  auto bytes = backend::write_plan(plan, target, target.cpu);
  if (!bytes) return bytes.error();
  auto functions = read_functions(*bytes);
  if (!functions) return functions.error();
  auto support = backend::assemble(target.triple, target.cpu, host.support(), {});
  if (!support) return support.error();
  auto own = read_functions(*support);
  if (!own) return own.error();
  auto end =
      backend::assemble(target.triple, target.cpu,
                        fmt::format("\t.globl end\n\t.type end, @function\nend:\n\t{}\n\t.size end, .-end\n",
                                    host.jump_to_done),
                        {});
  if (!end) return end.error();
  auto ending = read_functions(*end);
  if (!ending) return ending.error();
  Code code{std::move(*functions), {}};
  code.functions.merge(*own);
  code.functions.merge(*ending);
  if (plan::rules_for(host.name)) {
    auto read = plan::read_plan(*bytes);
    if (!read) return read.error();
    code.plan = std::move(*read);
  } else {
    code.plan.manifest = plan.manifest;
    for (const backend::StencilText& stencil : plan.stencils)
      code.plan.stencils.push_back({stencil.info, {}, {}});
  }
  return code;
}

// A run's place in the blob.
struct Run {
  size_t job = 0;
  size_t stencil = 0;  // index into Plan::stencils
  const Inputs* inputs = nullptr;
  size_t code = 0;    // offsets in the blob
  size_t memory = 0;  // kCaseWords words
  uint64_t block() const { return kBase + memory + 16 * kRegisterWords - static_cast<uint64_t>(kBias); }
};

class Blob {
 public:
  Blob(const Host& host, const std::vector<Job>& jobs, const Code& code, std::vector<Verdict>& verdicts)
      : host_(host),
        target_(*backend::find_target(host.name)),
        jobs_(jobs),
        code_(code),
        verdicts_(verdicts) {}

  Result<void> run() {
    size_t stencil = 0;
    for (size_t i = 0; i < jobs_.size(); i++) {
      if (!verdicts_[i].refused.empty()) continue;
      for (const Inputs& inputs : jobs_[i].inputs) runs_.push_back({i, stencil, &inputs});
      stencil++;
    }
    for (size_t next = 0; next < runs_.size();)
      if (auto part = run_from(next); !part) return part;
    return {};
  }

 private:
  Result<void> run_from(size_t& next);
  Result<void> put_code(Run& run);
  Result<void> put_function(const Function& function, const Run& run, uint64_t next);
  int64_t symbol_value(const std::string& name, const Run& run, uint64_t next) const;
  void put_memory(const Run& run);
  Result<void> execute();
  void judge(const Run& run);
  std::string compare_registers(const Run& run) const;
  std::string compare_cells(const Run& run, const ir::Machine& expected) const;
  std::string compare_block(const Run& run, const ir::Machine& expected, int64_t clock) const;

  void align(size_t to) { bytes_.resize((bytes_.size() + to - 1) / to * to); }
  void append(const std::vector<std::byte>& code) { bytes_.insert(bytes_.end(), code.begin(), code.end()); }
  uint64_t word(const Run& run, size_t index) const {
    uint64_t value;
    std::memcpy(&value, bytes_.data() + run.memory + 8 * index, 8);
    return value;
  }
  void set_word(const Run& run, size_t index, uint64_t value) {
    std::memcpy(bytes_.data() + run.memory + 8 * index, &value, 8);
  }
  const plan::Stencil& stencil(const Run& run) const { return code_.plan.stencils[run.stencil]; }

  const Host& host_;
  const backend::Target& target_;
  const std::vector<Job>& jobs_;
  const Code& code_;
  std::vector<Verdict>& verdicts_;
  std::vector<Run> runs_;
  std::vector<std::byte> bytes_;
  std::map<std::string, uint64_t, std::less<>> support_;  // addresses
};

// As many runs as fit in the part of the blob that is for code.
Result<void> Blob::run_from(size_t& next) {
  const size_t first = next;
  bytes_.assign(8 * kHeaderWords, std::byte{});
  for (const char* name : {"mdl_enter", "mdl_done", "mdl_routine_cpu", "mdl_routine_event", "mdl_routine_now",
                           "mdl_routine_error", "mdl_routine_read", "mdl_routine_call", "mdl_routine_observe",
                           "mdl_routine_enter", "mdl_routine_kept", "mdl_routine_elapsed",
                           "mdl_routine_stayed", "mdl_routine_pause", "mdl_routine_resume"}) {
    align(16);
    support_[name] = kBase + bytes_.size();
    append(code_.functions.at(name).code);
  }
  for (; next < runs_.size() && bytes_.size() < kCodeBytes - kLargestStencil; next++) {
    runs_[next].memory = kCodeBytes + (next - first) * 8 * kCaseWords;
    if (auto put = put_code(runs_[next]); !put) return put;
  }
  const uint64_t count = next - first, table = kCodeBytes + count * 8 * kCaseWords;
  bytes_.resize(table + 16 * count);
  for (size_t i = first; i < next; i++) {
    put_memory(runs_[i]);
    const uint64_t row[2] = {runs_[i].memory, runs_[i].code};
    std::memcpy(bytes_.data() + table + 16 * (i - first), row, sizeof row);
  }
  const uint64_t head[kHeaderWords] = {kBase, support_.at("mdl_enter") - kBase, table, count};
  std::memcpy(bytes_.data(), head, sizeof head);
  if (auto executed = execute(); !executed) return executed;
  for (size_t i = first; i < next; i++) judge(runs_[i]);
  return {};
}

Result<void> Blob::put_code(Run& run) {
  align(16);
  run.code = bytes_.size();
  const Function& body = code_.functions.at(stencil(run).info.name);
  if (jobs_[run.job].guarded) {
    const Function& guard = code_.functions.at(format::kGuardStencil);
    const uint64_t next = kBase + bytes_.size() + guard.code.size() + body.code.size();
    if (auto put = put_function(guard, run, next); !put) return put;
  }
  const size_t at = bytes_.size();
  if (auto put = put_function(body, run, 0); !put) return put;
  if (const plan::TargetRules* rules = plan::rules_for(host_.name)) {
    // Of a histogram the block here has no more than words_of() says; a real one has all of it.
    const uint64_t size =
        static_cast<uint64_t>(block_offset(kBlockWords)) + format::info(CellKind::histogram).size;
    auto verified =
        plan::verify_filled(*rules, stencil(run), std::span(bytes_).subspan(at, body.code.size()), size);
    if (!verified) return verified.error();
  }
  return put_function(code_.functions.at("end"), run, 0);
}

Result<void> Blob::put_function(const Function& function, const Run& run, uint64_t next) {
  const size_t start = bytes_.size();
  append(function.code);
  for (const Relocation& r : function.relocations) {
    const int64_t value = symbol_value(r.symbol, run, next) + r.addend;
    const uint64_t place = kBase + start + r.offset;
    if (!host_.relocate(r.type, std::span(bytes_).subspan(start + r.offset), place, value))
      return Error{fmt::format("relocation {} against {} cannot take {:#x}", r.type, r.symbol, value)};
  }
  return {};
}

// Symbols that end in an index; those of halves are format/halves.h's.
int64_t Blob::symbol_value(const std::string& name, const Run& run, uint64_t next) const {
  if (auto found = support_.find(name); found != support_.end()) return static_cast<int64_t>(found->second);
  if (name == format::kNextSymbol) return static_cast<int64_t>(next);
  if (name == format::kAnomalySymbol) return block_offset(kAnomalyWord);
  if (name == format::kThreadSymbol) return block_offset(kThreadWord);
  if (name == format::kGuardSymbol) return block_offset(cell_word(0));
  const size_t digits = name.find_last_not_of("0123456789") + 1;
  const size_t index = std::stoul(name.substr(digits));
  const std::string_view kind(name.data(), digits);
  if (kind == format::kCellSymbol) return block_offset(cell_word(index));
  if (kind == format::kSymbolLeft) return run.inputs->variables.at(index).left;
  if (kind == format::kSymbolRight) return run.inputs->variables.at(index).right;
  const auto& symbols = jobs_[run.job].code.symbols;
  int64_t value = 0;
  if (kind.starts_with(format::kConstSymbol))
    value = bound(jobs_[run.job].code.constants, run.inputs->machine.constants).at(index);
  else if (symbols.at(index).kind == format::SymbolKind::variable)
    value = static_cast<int64_t>(run.block()) + block_offset(kVariableWord + index);
  else
    value = run.inputs->functions.at(index);
  const int64_t low = static_cast<int32_t>(value);
  if (kind.ends_with(format::kLowHalf)) return low;
  if (kind.ends_with(format::kHighHalf))
    return static_cast<int64_t>(static_cast<uint64_t>(value) - static_cast<uint64_t>(low)) >> 32;
  return value;
}

void Blob::put_memory(const Run& run) {
  const ir::Machine& machine = run.inputs->machine;
  for (size_t r = 0; r < kRegisterWords; r++)
    set_word(run, r, 0xc0ffee00'00000000u + (r + run.job % 7) * 0x11111);
  for (size_t i = 0; i < target_.arguments.size() && i < machine.args.size(); i++)
    set_word(run, target_.arguments[i], static_cast<uint64_t>(machine.args[i]));
  if (format::info(stencil(run).info.point).result)
    set_word(run, target_.result, static_cast<uint64_t>(machine.result));
  set_word(run, host_.block, run.block());
  // On x86_64 bit 1 of the flags is always 1, and bit 9 enables interrupts.
  set_word(run, kRegisterWords - 1, 0x202 | ((run.job * 0x9e3779b97f4a7c15u >> 16) & host_.flag_bits));

  const size_t block = 2 * kRegisterWords;
  for (size_t i = 0; i < kBlockWords; i++) set_word(run, block + i, pattern(i));
  auto put = [&](size_t at, int64_t value) { set_word(run, block + at, static_cast<uint64_t>(value)); };
  put(kClockWord, run.inputs->clock);
  put(kStepWord, run.inputs->step);
  put(kThreadWord, machine.thread);
  put(kAnomalyWord, machine.anomalies);
  for (size_t i = 0; i < run.inputs->variables.size() && i < kVariables; i++)
    put(kVariableWord + i, run.inputs->variables[i].word);
  const auto& cells = jobs_[run.job].code.cells;
  for (size_t i = 0; i < cells.size(); i++) {
    for (size_t word = 1; word < words_of(cells[i].kind); word++) put(cell_word(i) + word, 0);
    put(cell_word(i), machine.cells.at(i));
    if (has_second(cells[i].kind) && i < machine.seconds.size()) put(cell_word(i) + 1, machine.seconds[i]);
  }
}

Result<void> Blob::execute() {
  const std::string path = fmt::format("{}/mdl-exec-{}.blob", testing::TempDir(), getpid());
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(bytes_.data()), static_cast<std::streamsize>(bytes_.size()));
  const std::string harness = fmt::format("{}/bin/mdl_exec_{}", MDL_BINARY_DIR, host_.name);
  const int status = std::system(fmt::format("{} '{}' '{}'", host_.emulator, harness, path).c_str());
  std::ifstream in(path, std::ios::binary);
  in.read(reinterpret_cast<char*>(bytes_.data()), static_cast<std::streamsize>(bytes_.size()));
  const bool whole = static_cast<size_t>(in.gcount()) == bytes_.size();
  std::remove(path.c_str());
  if (status != 0)
    return Error{fmt::format("the process that ran the stencils ended with status {:#x}", status)};
  if (!whole) return Error{"the results cannot be read"};
  return {};
}

std::string Blob::compare_registers(const Run& run) const {
  const format::StencilInfo& info = stencil(run).info;
  for (size_t r = 0; r < target_.registers.size(); r++) {
    bool free = r == target_.scratch;
    for (backend::Register untouched : host_.untouched) free = free || r == untouched;
    for (const std::string& clobber : info.clobbers) free = free || clobber == target_.registers[r];
    if (!free && word(run, r) != word(run, kRegisterWords + r))
      return fmt::format("{} changed, which is not in the clobber list", target_.registers[r]);
  }
  const size_t flags = kRegisterWords - 1;
  const uint64_t changed = (word(run, flags) ^ word(run, kRegisterWords + flags)) & host_.flag_bits;
  if (changed && !info.writes_flags && !jobs_[run.job].guarded) return "flags changed, which is not declared";
  return "";
}

// The wall clock's answers are not known: a wall timer is negative while it runs, and not otherwise.
std::string Blob::compare_cells(const Run& run, const ir::Machine& expected) const {
  const auto& cells = jobs_[run.job].code.cells;
  for (size_t i = 0; i < cells.size(); i++) {
    const size_t at = 2 * kRegisterWords + cell_word(i);
    const auto first = static_cast<int64_t>(word(run, at)), second = static_cast<int64_t>(word(run, at + 1));
    if (has_second(cells[i].kind) && second != expected.seconds[i])
      return fmt::format("cell {} has second word {}, expected {}", cells[i].name, second,
                         expected.seconds[i]);
    const bool wall = cells[i].kind == CellKind::wall_timer;
    if (wall && (first < 0) != (second > 0))
      return fmt::format("wall timer {} is {} at depth {}", cells[i].name, first, second);
    if (!wall && first != expected.cells[i])
      return fmt::format("cell {} is {}, expected {}", cells[i].name, first, expected.cells[i]);
  }
  return "";
}

std::string Blob::compare_block(const Run& run, const ir::Machine& expected, int64_t clock) const {
  const auto& cells = jobs_[run.job].code.cells;
  std::vector<uint64_t> words(kBlockWords);
  for (size_t i = 0; i < kBlockWords; i++) words[i] = pattern(i);
  words[kClockWord] = static_cast<uint64_t>(clock);
  words[kStepWord] = static_cast<uint64_t>(run.inputs->step);
  words[kThreadWord] = static_cast<uint64_t>(expected.thread);
  words[kAnomalyWord] = static_cast<uint64_t>(expected.anomalies);
  for (size_t i = 0; i < run.inputs->variables.size() && i < kVariables; i++)
    words[kVariableWord + i] = static_cast<uint64_t>(run.inputs->variables[i].word);
  for (size_t i = 0; i < cells.size(); i++)
    for (size_t w = 0; w < words_of(cells[i].kind); w++)
      words[cell_word(i) + w] = word(run, 2 * kRegisterWords + cell_word(i) + w);  // compare_cells's
  for (size_t i = 0; i < kBlockWords; i++)
    if (word(run, 2 * kRegisterWords + i) != words[i])
      return fmt::format("word {} of the block is {:#x}, expected {:#x} (0 is the clock, 3 the anomalies)", i,
                         word(run, 2 * kRegisterWords + i), words[i]);
  return "";
}

void Blob::judge(const Run& run) {
  const ir::Snippet& meaning = jobs_[run.job].meaning;
  ir::Machine expected = run.inputs->machine;
  TestWorld world(meaning, *run.inputs, static_cast<int64_t>(run.block()));
  expected.constants = bound(meaning.constants, expected.constants);
  expected.world = &world;
  ir::interpret(meaning, expected);
  Verdict& verdict = verdicts_[run.job];
  verdict.runs++;
  std::string wrong = compare_cells(run, expected);
  if (wrong.empty()) wrong = compare_block(run, expected, world.now());
  if (wrong.empty()) wrong = compare_registers(run);
  if (wrong.empty() || !verdict.wrong.empty()) return;
  const ir::Machine& machine = run.inputs->machine;
  verdict.wrong = fmt::format("{}\n  with args {} result {} constants {} cells {} second words {}", wrong,
                              fmt::join(machine.args, ","), machine.result, fmt::join(machine.constants, ","),
                              fmt::join(machine.cells, ","), fmt::join(machine.seconds, ","));
}

}  // namespace

Result<std::vector<Verdict>> run(const Host& host, const std::vector<Job>& jobs) {
  std::vector<Verdict> verdicts(jobs.size());
  auto code = compile(host, jobs, verdicts);
  if (!code) return code.error();
  if (auto ran = Blob(host, jobs, *code, verdicts).run(); !ran) return ran.error();
  return verdicts;
}

}  // namespace mdl::exec
