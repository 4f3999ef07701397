// A stencil is simulated as a loop of its longest path, executions behind each other without a memory
// dependence between them: in a program other code stands in between, and each thread has cells of its
// own. The cost of one more execution is the difference between a long run and a short one, divided by the
// executions between: start-up and draining of the pipeline drop out.
//
// Calls of resident routines are left out: their time is the kernel's, not the pipeline's, and is added up by
// itself (format::MDL_ROUTINES). So is what the models have wrong (Target::measured): they know when rdtsc
// has its answer, not that the next one waits for it. A measured instruction during which all else goes on
// takes the place of what that takes, where it is longer.
#include "backend/cycles.h"

#include <fmt/format.h>
#include <llvm/MC/MCContext.h>
#include <llvm/MC/MCInst.h>
#include <llvm/MC/MCInstrAnalysis.h>
#include <llvm/MC/MCObjectFileInfo.h>
#include <llvm/MC/MCParser/MCAsmParser.h>
#include <llvm/MC/MCParser/MCTargetAsmParser.h>
#include <llvm/MC/MCStreamer.h>
#include <llvm/MCA/Context.h>
#include <llvm/MCA/CustomBehaviour.h>
#include <llvm/MCA/InstrBuilder.h>
#include <llvm/MCA/Pipeline.h>
#include <llvm/MCA/SourceMgr.h>
#include <llvm/Support/MemoryBuffer.h>
#include <llvm/Support/SourceMgr.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <optional>

#include "backend/mc_machine.h"

namespace mdl::backend {
namespace {

constexpr unsigned kShort = 10, kLong = 60;  // executions
constexpr unsigned kCallLatency = 100;       // llvm-mca's default; no call is simulated

// Receives the instructions of a text.
class Collector : public llvm::MCStreamer {
 public:
  explicit Collector(llvm::MCContext& context) : MCStreamer(context) {}
  void emitInstruction(const llvm::MCInst& inst, const llvm::MCSubtargetInfo&) override {
    insts.push_back(inst);
  }
  bool emitSymbolAttribute(llvm::MCSymbol*, llvm::MCSymbolAttr) override { return true; }
  void emitCommonSymbol(llvm::MCSymbol*, uint64_t, llvm::Align) override {}
  void emitZerofill(llvm::MCSection*, llvm::MCSymbol*, uint64_t, llvm::Align, llvm::SMLoc) override {}
  std::vector<llvm::MCInst> insts;
};

// The lines on the path with most instructions. Branches go forward, so one walk from the end sees
// every path; of two equal ones the path that falls through is taken.
std::vector<const Line*> longest_path(const std::vector<Line>& lines) {
  std::map<uint32_t, size_t> labels;
  for (size_t i = 0; i < lines.size(); i++)
    if (lines[i].kind == Line::Kind::label) labels[lines[i].label] = i;
  std::vector<size_t> length(lines.size() + 1, 0), next(lines.size(), 0);
  for (size_t i = lines.size(); i-- > 0;) {
    const Line::Kind kind = lines[i].kind;
    next[i] = kind == Line::Kind::jump ? labels.at(lines[i].label) : i + 1;
    if (kind == Line::Kind::branch && length[labels.at(lines[i].label)] > length[i + 1])
      next[i] = labels.at(lines[i].label);
    length[i] = length[next[i]] + (kind != Line::Kind::label);
  }
  std::vector<const Line*> path;
  for (size_t i = 0; i < lines.size(); i = next[i])
    if (lines[i].kind != Line::Kind::label) path.push_back(&lines[i]);
  return path;
}

// The text with each number that is an immediate replaced by one word: what it is makes no difference to
// the pipeline, and stencils that differ in one are frequent. Numbers in names (%r8, x15, mdl_cell_0) stay.
std::string without_numbers(const std::string& text) {
  std::string result;
  for (size_t i = 0; i < text.size(); i++) {
    const auto is_digit = [&](size_t at) { return text[at] >= '0' && text[at] <= '9'; };
    const char before = i > 0 ? text[i - 1] : ' ';
    const bool in_name = std::isalnum(static_cast<unsigned char>(before)) || before == '_';
    if (!is_digit(i) || in_name) {
      result += text[i];
      continue;
    }
    while (i + 1 < text.size() && is_digit(i + 1)) i++;
    result += 'N';
  }
  return result;
}

struct Prediction {
  uint32_t instructions = 0;
  uint32_t cycles = 0;      // hundredths
  uint32_t routine_ns = 0;  // of the routines called
};

class Simulator {
 public:
  Simulator(Machine machine, const Target& target, std::string_view cpu)
      : m_(std::move(machine)), target_(target), cpu_(cpu) {
    analysis_.reset(m_.target->createMCInstrAnalysis(m_.instructions.get()));
  }

  bool has_model() const { return m_.cpu->getSchedModel().hasInstrSchedModel(); }

  // Paths that are equal but for numbers are simulated once. On riscv64 a number is one to eight
  // instructions, so there it matters.
  Result<Prediction> predict(const StencilText& stencil) {
    const std::string inputs = set_inputs(stencil);
    auto before = known(inputs);
    if (!before) return before;
    std::string text = inputs;
    uint32_t apart = 0, alone = 0, beside = 0, routine_ns = 0;
    for (const Line* line : longest_path(stencil.lines)) {
      const bool has_label = line->kind == Line::Kind::jump || line->kind == Line::Kind::branch;
      if (auto routine = called(line->text))
        apart++, routine_ns += format::info(*routine).nanoseconds;
      else if (const Measured* row = measured_row(line->text))
        apart++, (row->alone ? alone : beside) += row->cycles;
      else
        text += fmt::format("\t{}{}\n", line->text, has_label ? " .Lend" : "");
    }
    text += ".Lend:\n";
    auto after = known(text);
    if (!after) return after;
    const uint32_t own = after->cycles > before->cycles ? after->cycles - before->cycles : 0;
    return Prediction{after->instructions - before->instructions + apart, std::max(own, beside) + alone,
                      routine_ns};
  }

 private:
  static std::optional<format::Routine> called(std::string_view text) {
    const size_t at = text.find(format::kRoutineSymbol);
    if (at == std::string_view::npos) return std::nullopt;
    return format::routine(text.substr(at + std::string_view(format::kRoutineSymbol).size()));
  }
  // The row for the CPU before the one for all.
  const Measured* measured_row(std::string_view text) const {
    const std::string_view mnemonic = text.substr(0, text.find(' '));
    const Measured* found = nullptr;
    for (const Measured& row : target_.measured)
      if (row.mnemonic == mnemonic && (row.cpu == cpu_ || (row.cpu.empty() && !found))) found = &row;
    return found;
  }

  // The inputs that a stencil destroys come anew each time, not from its last execution.
  std::string set_inputs(const StencilText& stencil) const {
    std::string text = "\t.text\n";
    auto set = [&](Register r) {
      for (const std::string& clobber : stencil.info.clobbers)
        if (clobber == target_.registers[r]) text += fmt::format("\t{}\n", target_.set_register(r));
    };
    for (Register r : target_.arguments) set(r);
    set(target_.result);
    return text;
  }

  Result<Prediction> known(const std::string& text) {
    const std::string key = target_.numbers_vary ? text : without_numbers(text);
    auto known = known_.find(key);
    if (known == known_.end()) {
      auto made = simulate(text);
      if (!made) return made.error();
      known = known_.emplace(key, *made).first;
    }
    return known->second;
  }

  Result<std::vector<llvm::MCInst>> read(llvm::MCContext& context, llvm::SourceMgr& sources) {
    Collector collector(context);
    m_.target->createNullTargetStreamer(collector);
    std::unique_ptr<llvm::MCAsmParser> parser(createMCAsmParser(sources, context, collector, *m_.syntax));
    std::unique_ptr<llvm::MCTargetAsmParser> of_target(
        m_.target->createMCAsmParser(*m_.cpu, *parser, *m_.instructions, m_.options));
    parser->setTargetParser(*of_target);
    if (parser->Run(/*NoInitialTextSection=*/false)) return Error{"internal error: a stencil is no assembly"};
    return std::move(collector.insts);
  }

  Result<Prediction> simulate(const std::string& text) {
    llvm::SourceMgr sources;
    sources.AddNewSourceBuffer(llvm::MemoryBuffer::getMemBuffer(text, "stencil"), llvm::SMLoc());
    sources.setDiagHandler([](const llvm::SMDiagnostic&, void*) {});
    llvm::MCContext context(m_.triple, m_.syntax.get(), m_.registers.get(), m_.cpu.get(), &sources);
    std::unique_ptr<llvm::MCObjectFileInfo> files(m_.target->createMCObjectFileInfo(context, /*PIC=*/false));
    context.setObjectFileInfo(files.get());
    auto insts = read(context, sources);
    if (!insts) return insts.error();
    Prediction result{static_cast<uint32_t>(insts->size()), 0, 0};
    if (insts->empty()) return result;
    const unsigned first = run(*insts, kShort), last = run(*insts, kLong);
    result.cycles = (last - first) * 100 / (kLong - kShort);
    return result;
  }

  // The cycles of so many executions.
  unsigned run(const std::vector<llvm::MCInst>& insts, unsigned executions) {
    using namespace llvm::mca;
    InstrumentManager instruments(*m_.cpu, *m_.instructions);
    InstrBuilder builder(*m_.cpu, *m_.instructions, *m_.registers, analysis_.get(), instruments,
                         kCallLatency);
    std::vector<std::unique_ptr<Instruction>> sequence;
    for (const llvm::MCInst& inst : insts) {
      auto made = builder.createInstruction(inst, llvm::SmallVector<Instrument*>());
      if (made)
        sequence.push_back(std::move(*made));
      else
        llvm::consumeError(made.takeError());  // the model does not have it: it counts for nothing
    }
    if (sequence.empty()) return executions;
    CircularSourceMgr source(sequence, executions);
    CustomBehaviour behaviour(*m_.cpu, source, *m_.instructions);
    Context context(*m_.registers, *m_.cpu);
    PipelineOptions options(0, 0, 0, 0, 0, 0, /*NoAlias=*/true);
    std::unique_ptr<Pipeline> pipeline = m_.cpu->getSchedModel().isOutOfOrder()
                                             ? context.createDefaultPipeline(options, source, behaviour)
                                             : context.createInOrderPipeline(options, source, behaviour);
    auto cycles = pipeline->run();
    if (cycles) return *cycles;
    llvm::consumeError(cycles.takeError());
    return 0;
  }

  Machine m_;
  const Target& target_;
  std::string cpu_;
  std::unique_ptr<llvm::MCInstrAnalysis> analysis_;
  std::map<std::string, Prediction> known_;
};

}  // namespace

Result<void> predict(PlanText& plan, const Target& target, std::string_view cpu) {
  auto wanted = machine(target.triple, cpu);
  if (!wanted) return wanted.error();
  std::optional<Simulator> simulator(std::in_place, std::move(*wanted), target, cpu);
  if (!simulator->has_model()) {
    cpu = target.cpu;
    auto known = machine(target.triple, cpu);
    if (!known) return known.error();
    simulator.emplace(std::move(*known), target, cpu);
  }
  plan.manifest.cpu = cpu;
  for (size_t i = 0; i < plan.stencils.size(); i++) {
    auto prediction = simulator->predict(plan.stencils[i]);
    if (!prediction) return prediction.error();
    for (format::StencilInfo* info : {&plan.stencils[i].info, &plan.manifest.stencils[i]}) {
      info->instructions = prediction->instructions;
      info->cycles = prediction->cycles;
      info->routine_ns = prediction->routine_ns;
    }
  }
  return {};
}

}  // namespace mdl::backend
