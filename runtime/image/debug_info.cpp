#include "runtime/image/debug_info.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/json.h"
#include "llvm/DebugInfo/DWARF/DWARFContext.h"
#include "llvm/Support/MemoryBuffer.h"
#include "runtime/image/function_die.h"

namespace mdl::image {
namespace {

using Json = nlohmann::json;

// The reader, in a process of its own. LLVM keeps pointers into the sections.
class Reader {
 public:
  explicit Reader(DebugSections sections) : sections_(std::move(sections)) {}

  std::string answer(const std::string& question) {
    if (!context_) open();
    const Json asked = read_json(question);
    if (asked.contains("parameter"))
      return write_json(to_json(find_parameter(*context_, start_in(asked), asked["parameter"])));
    if (asked.contains("value")) {
      const ValueType type = find_value_type(*context_, folded_, start_in(asked), asked["value"]);
      return write_json(Json{{"mask", type.mask}, {"sign", type.sign}, {"why", type.why}});
    }
    if (asked.contains("inlined"))
      return write_json(Json(find_holders(*context_, std::string(asked["inlined"]))));
    if (asked.contains("inlined_from"))
      return write_json(
          Json(find_holders(*context_, asked["inlined_from"].get<std::vector<FunctionSymbol>>())));
    if (asked.contains("named")) {
      const llvm::DWARFDie function = function_at(*context_, asked["entry"]);
      return write_json(Json(function && is_named(function, std::string(asked["named"]))));
    }
    Json files = Json::array();
    for (const Json& entry : asked["entries"]) files.push_back(source_file(entry));
    return write_json(files);
  }

 private:
  static FunctionStart start_in(const Json& asked) { return {asked["entry"], asked["idle"]}; }

  static Json to_json(const Parameter& p) {
    return {{"number", p.number}, {"mask", p.mask}, {"sign", p.sign}, {"why", p.why}};
  }

  void open() {
    if (!unpack(sections_)) throw std::runtime_error("damaged");  // which ends this process
    llvm::StringMap<std::unique_ptr<llvm::MemoryBuffer>> buffers;
    for (const auto& one : sections_)
      buffers[one.name] = llvm::MemoryBuffer::getMemBuffer({one.bytes.data(), one.bytes.size()}, one.name,
                                                           /*RequiresNullTerminator=*/false);
    const auto ignore = [](llvm::Error error) { llvm::consumeError(std::move(error)); };
    context_ = llvm::DWARFContext::create(buffers, /*AddrSize=*/8, /*isLittleEndian=*/true, ignore, ignore);
  }

  std::string source_file(uint64_t entry) {
    using Kind = llvm::DILineInfoSpecifier::FileLineInfoKind;
    const llvm::DILineInfo line = context_->getLineInfoForAddress(
        {entry}, {Kind::RawValue, llvm::DILineInfoSpecifier::FunctionNameKind::None});
    return line ? line.FileName : "";
  }

  DebugSections sections_;
  std::unique_ptr<llvm::DWARFContext> context_;
  FoldedFunctions folded_;
};

// Its answer as JSON, or why there is none.
Result<Json> ask(Confined& reader, const Json& question) {
  auto text = reader.ask(write_json(question));
  if (!text)
    return Error{
        fmt::format("its debug information cannot be read: the reader failed, {}", text.error().text)};
  return read_json(*text);  // of our own code, which has not crashed
}

std::string_view last_component(std::string_view path) {
  const size_t slash = path.rfind('/');
  return slash == path.npos ? path : path.substr(slash + 1);
}

}  // namespace

Result<FileDebugInfo> FileDebugInfo::open(DebugSections sections, unsigned seconds) {
  // What reading an honest file takes, with room: a third of that in memory, and of the time a tenth.
  constexpr uint64_t kAnyMemory = uint64_t{128} << 20, kTimesMemory = 8;
  constexpr uint64_t kAnySeconds = 2, kBytesASecond = 4 << 20;
  uint64_t bytes = 0;
  for (const DebugSection& section : sections) bytes += section.size;
  seconds = static_cast<unsigned>(std::min<uint64_t>(seconds, kAnySeconds + bytes / kBytesASecond));
  auto reader = std::make_shared<Reader>(std::move(sections));
  auto confined = Confined::start([reader](const std::string& question) { return reader->answer(question); },
                                  seconds, kAnyMemory + kTimesMemory * bytes);
  if (!confined) return confined.error();
  return FileDebugInfo(std::move(*confined));
}

Parameter FileDebugInfo::parameter(const FunctionStart& start, const std::string& name) {
  auto answer = ask(reader_, {{"entry", start.entry}, {"idle", start.idle}, {"parameter", name}});
  if (!answer) return Parameter::unknown(answer.error().text);
  Parameter found;
  found.number = answer->at("number");
  found.mask = answer->at("mask");
  found.sign = answer->at("sign");
  found.why = answer->at("why");
  return found;
}

ValueType FileDebugInfo::value_type(const FunctionStart& start, int number) {
  auto answer = ask(reader_, {{"entry", start.entry}, {"idle", start.idle}, {"value", number}});
  return answer ? ValueType{answer->at("mask"), answer->at("sign"), answer->at("why")} : ValueType();
}

bool FileDebugInfo::is_named(uint64_t entry, const std::string& name) {
  auto answer = ask(reader_, {{"entry", entry}, {"named", name}});
  return answer && answer->get<bool>();
}

std::vector<std::string> FileDebugInfo::source_files(std::span<const uint64_t> entries) {
  auto answer = ask(reader_, {{"entries", std::vector<uint64_t>(entries.begin(), entries.end())}});
  std::vector<std::string> files(entries.size());
  if (answer) answer->get_to(files);
  return files;
}

std::vector<std::string> FileDebugInfo::holders(const std::string& name) {
  auto answer = ask(reader_, {{"inlined", name}});
  return answer ? answer->get<std::vector<std::string>>() : std::vector<std::string>();
}

Result<void> FileDebugInfo::ask_holders(const std::vector<FunctionSymbol>& functions) {
  return reader_.send(write_json(Json{{"inlined_from", functions}}));
}

std::vector<std::vector<std::string>> FileDebugInfo::asked_holders() {
  auto answer = reader_.receive();
  if (!answer) return {};
  return read_json(*answer).get<std::vector<std::vector<std::string>>>();
}

struct DebugInfo::State {
  explicit State(const Image& of) : image(of) {}

  struct File {
    std::string why;  // there is no debug information
    std::optional<FileDebugInfo> info;
    std::optional<std::vector<std::string>> sources;  // of the object's functions
  };

  File& file(const Object& object) {
    auto [slot, fresh] = files.try_emplace(&object);
    if (!fresh) return slot->second;
    auto sections = read_debug_sections(image, object);
    auto info =
        sections ? FileDebugInfo::open(std::move(*sections)) : Result<FileDebugInfo>(sections.error());
    if (info)
      slot->second.info = std::move(*info);
    else
      slot->second.why = info.error().text;
    return slot->second;
  }

  // A name with a dot that the source does not have, such as f.constprop.0.
  bool is_clone(const Object& object, const Function& function) {
    const std::string name = function.name.substr(0, function.name.find('@'));
    if (name.find('.') == name.npos) return false;
    File& its = file(object);
    return !its.info || !its.info->is_named(function.address - object.bias, name);
  }

  // Clones and functions of several names may have other types than the one that is described. That there is no such
  // value counts for them, too.
  ValueType value_type(const Object& object, const Function& function, const Idle& idle, int number) {
    File& its = file(object);
    if (!its.info) return {};
    ValueType type = its.info->value_type({function.address - object.bias, idle()}, number);
    const bool is_certain = function.aliases.empty() && !is_clone(object, function);
    return is_certain || !type.why.empty() ? type : ValueType();
  }

  Parameter find(const Object& object, const Function& function, const Idle& idle, const std::string& name) {
    if (is_clone(object, function))
      return Parameter::unknown("it is a clone that the compiler made, with parameters of its own");
    File& its = file(object);
    return its.info ? its.info->parameter({function.address - object.bias, idle()}, name)
                    : Parameter::unknown(its.why);
  }

  const std::vector<std::string>& sources(const Object& object) {
    File& its = file(object);
    if (its.sources) return *its.sources;
    std::vector<uint64_t> entries;
    for (const Function& function : object.functions) entries.push_back(function.address - object.bias);
    its.sources = its.info ? its.info->source_files(entries) : std::vector<std::string>(entries.size());
    return *its.sources;
  }

  const Image& image;
  std::map<const Object*, File> files;
  std::map<std::pair<const Function*, std::string>, Parameter> known;
  std::map<std::pair<const Function*, int>, ValueType> value_types;
};

DebugInfo::DebugInfo(const Image& image) : state_(std::make_unique<State>(image)) {}
DebugInfo::~DebugInfo() = default;

const Parameter& DebugInfo::parameter(const Object& object, const Function& function, const Idle& idle,
                                      const std::string& name) {
  const auto [slot, fresh] = state_->known.try_emplace({&function, name});
  if (fresh) slot->second = state_->find(object, function, idle, name);
  return slot->second;
}

const ValueType& DebugInfo::value_type(const Object& object, const Function& function, const Idle& idle,
                                       int number) {
  const auto [slot, fresh] = state_->value_types.try_emplace({&function, number});
  if (fresh) slot->second = state_->value_type(object, function, idle, number);
  return slot->second;
}

std::vector<const Function*> DebugInfo::functions_of_source(const Object& object, std::string_view name) {
  std::vector<const Function*> found;
  const std::vector<std::string>& sources = state_->sources(object);
  for (size_t i = 0; i < sources.size(); ++i)
    if (last_component(sources[i]) == name) found.push_back(&object.functions[i]);
  return found;
}

std::vector<std::string> DebugInfo::holders(const Object& object, const std::string& name) {
  constexpr unsigned kSeconds = 2;  // somebody waits for a message
  auto sections = read_debug_sections(state_->image, object);
  if (!sections) return {};
  auto info = FileDebugInfo::open(std::move(*sections), kSeconds);
  return info ? info->holders(name) : std::vector<std::string>();
}

}  // namespace mdl::image
