// What a target shows of itself, as it may have written it: the journal, and with it the directory, blocks, ring and
// key tables of the session; and the files of /proc that have its names in them. And what else mdl-inject reads of others:
// the questions and answers of --separate, and the policy of a machine.
//
// An input is a byte that says which, and the bytes. A journal gets the head that makes it one: what stands before its
// text is its windows. The memory of a session is what follows the journal, again and again.
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "base/digest.h"
#include "base/proc_text.h"
#include "base/say.h"
#include "mdl-inject/policy.h"
#include "runtime/image/image.h"
#include "runtime/kernel/calls.h"
#include "runtime/process/permission.h"
#include "runtime/process/target.h"
#include "runtime/resident/footprint.h"
#include "runtime/resident/key_table.h"
#include "runtime/session/request_values.h"
#include "runtime/session/anomalies.h"
#include "runtime/session/session_values.h"
#include "runtime/values/keys.h"

using namespace mdl;

namespace {

constexpr uint64_t kJournalAt = 0x10000, kPage = 4096;

// A session's memory: the journal, and elsewhere the input's bytes over and over, as words that are often small.
class Target final : public image::Memory {
 public:
  Target(std::vector<std::byte> journal, std::string_view rest) : journal_(std::move(journal)), rest_(rest) {
    journal_.resize((journal_.size() + kPage - 1) / kPage * kPage);
  }
  bool read(uint64_t address, std::span<std::byte> into) const override {
    if (address >= kJournalAt && address - kJournalAt + into.size() <= journal_.size()) {
      std::memcpy(into.data(), journal_.data() + (address - kJournalAt), into.size());
      return true;
    }
    for (size_t i = 0; i < into.size(); i++)
      into[i] = rest_.empty() ? std::byte{0} : static_cast<std::byte>(rest_[(address + i) % rest_.size()]);
    return into.size() < (size_t{1} << 30);
  }

 private:
  std::vector<std::byte> journal_;
  std::string_view rest_;
};

class NoClocks final : public values::Clocks {
 public:
  uint64_t wall() override { return 1; }
  std::optional<uint64_t> of_thread(const values::ClockOf&, uint64_t thread) override { return thread; }
  bool alive(uint64_t) override { return true; }
  size_t count() override { return 4; }
};

std::vector<std::byte> sealed(std::string_view text) {
  const uint64_t windows = std::min(text.find('{'), text.size()) / resident::kJournalWindow;
  const uint32_t version = resident::kJournalVersion;
  const uint64_t length = sizeof windows + text.size();
  std::vector<std::byte> out(resident::kJournalHead + length);
  std::memcpy(out.data() + resident::kJournalHead, &windows, sizeof windows);
  std::memcpy(out.data() + resident::kJournalHead + sizeof windows, text.data(), text.size());
  const Digest digest = sha256(std::span(out).subspan(resident::kJournalHead));
  std::memcpy(out.data(), "MDLJRNL\n", 8);
  std::memcpy(out.data() + 8, &version, sizeof version);
  std::memcpy(out.data() + 16, &length, sizeof length);
  std::memcpy(out.data() + 24, digest.data(), digest.size());
  return out;
}

void read_session(std::string_view text) {
  const size_t end = text.rfind('}');
  const std::string_view rest = end == text.npos ? "" : text.substr(end + 1);
  Target memory(sealed(text.substr(0, end == text.npos ? text.size() : end + 1)), rest);
  image::Mapping mapping;
  mapping.start = kJournalAt, mapping.end = uint64_t{1} << 47;
  mapping.read = true, mapping.inode = 1, mapping.path = "/memfd:mdl-session (deleted)";
  const resident::Footprint found = resident::find_footprint({mapping}, memory);
  if (!found.journal) return;
  const resident::Journal& journal = *found.journal;
  (void)resident::is_in_place(journal, memory);
  (void)resident::relay_places(journal.windows);
  const values::BlockLayout layout = inject::block_layout(journal);
  NoClocks clocks;
  if (auto values = values::read_values(layout, memory, clocks))
    (void)inject::anomalies_of(journal, values->anomaly_words);
  for (const resident::JournalTable& table : journal.tables) {
    if (table.most > 4096 || layout.slots > 4096) continue;
    values::KeyReader reader(layout, inject::key_place(table));
    for (int i = 0; i < 2; i++) (void)reader.read(memory).operator bool();
  }
}

// One call's parameters as its broker takes them out of a question, and as its worker takes them out of an answer.
template <typename R, typename... A>
void read_wire(R (*)(A...), std::span<const std::byte> bytes) {
  using namespace kernel::wire;
  Reader question(bytes), answer(bytes);
  std::tuple<typename Parameter<A>::Kept...> asked{}, answered{};
  std::apply([&](auto&... one) { (Parameter<A>::take(question, one), ...); }, asked);
  if (question.is_whole()) std::apply([](auto&... one) { ((void)Parameter<A>::pass(one), ...); }, asked);
  std::apply([&](auto&... one) { (Parameter<A>::receive(answer, Parameter<A>::pass(one)), ...); }, answered);
  [[maybe_unused]] R out{};
  if constexpr (!std::is_same_v<R, kernel::direct::Opened>) get(answer, out);
  (void)answer.is_whole();
}

template <auto... F>
void read_wire(kernel::List<F...>, std::span<const std::byte> bytes) {
  if (bytes.empty()) return;
  const auto number = static_cast<size_t>(bytes[0]) % sizeof...(F);
  size_t at = 0;
  ((at++ == number ? read_wire(F, bytes.subspan(1)) : void()), ...);
}

void read_stat(std::string_view text) {
  for (int field = -1; field < 60; field++) (void)stat_field(text, field);
  for (std::string_view key : {"Name", "Uid", "VmSize", ""}) (void)status_value(text, key);
  (void)process::parse_status(text);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  switch (data[0]) {
    case 'm':
      (void)image::parse_maps(text).operator bool();
      break;
    case 's':
      (void)process::parse_credentials(std::string(text));
      break;
    case 't':
      read_stat(text);
      break;
    case 'w':
      read_wire(kernel::Calls{}, std::as_bytes(std::span(text)));
      break;
    case 'y':
      (void)inject::parse_policy(std::string(text), "policy").operator bool();
      break;
    case 'p':
      if (harmless(harmless(text)) != harmless(text)) __builtin_trap();
      break;
    default:
      read_session(text);
  }
  return 0;
}
