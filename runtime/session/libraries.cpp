#include "runtime/session/libraries.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/say.h"
#include "runtime/focus/graft.h"
#include "runtime/kernel/proc_file.h"
#include "runtime/resident/footprint.h"
#include "runtime/session/report.h"

namespace mdl::inject {

using namespace std::chrono_literals;

namespace {

// The mappings of code from files: start, device and inode of each; not those of a session.
std::set<std::tuple<uint64_t, uint64_t, uint64_t>> mapped_code(const std::vector<image::Mapping>& mappings) {
  std::set<std::tuple<uint64_t, uint64_t, uint64_t>> out;
  for (const image::Mapping& mapping : mappings)
    if (mapping.execute && mapping.inode != 0 && !resident::is_session_mapping(mapping))
      out.insert({mapping.start, mapping.device, mapping.inode});
  return out;
}

}  // namespace

constexpr auto kLookForLibraries =
    10ms;  // from look to look at the list: some hundred bytes for each library
constexpr auto kLookForUnloaded = 500ms;  // at first; twice as long each time that it was in vain
constexpr auto kLongestWait = 60s;

// The findings about the process as it is now.
struct Libraries::Prepared {
  image::Image image;
  std::set<const image::Object*> objects;  // the new ones
  focus::Graft graft;
  patch::Coverage coverage;
  std::string problem;                               // why nothing can be inserted
  std::vector<std::string> lost;                     // as in focus::Binding
  std::shared_ptr<const image::AddressNames> names;  // where keys are addresses
};

Libraries::Libraries(const patch::InsertInput& input, focus::BindOptions options,
                     const process::TargetMemory& memory, resident::Journal& session)
    : input_(input),
      options_(std::move(options)),
      memory_(memory),
      session_(session),
      list_(image::LoadedList::find(input.image, memory)),
      known_(identities(input.image)),
      reach_(input.plan, input.binding) {
  reach_.add(input.plan, input.coverage);
  if (input.changes) inserted_.add(input.coverage);
  options_.again = true;
  watch_windows();
  // The list is read before the mappings: what is in it is in them.
  auto loaded = list_ ? list_->read(memory) : std::nullopt;
  auto mappings = image::read_maps(kernel::live_thread(input.image.pid));
  if (loaded && mappings && mapped_code(*mappings) == mapped_code(input.image.mappings))
    loaded_ = std::move(*loaded);  // nothing came or went since the image was read
}

Libraries::~Libraries() = default;

std::set<Libraries::Identity> Libraries::identities(const image::Image& image) {
  std::set<Identity> out;
  for (const image::Object& object : image.objects)
    for (const image::Mapping& mapping : image.mappings)
      if (mapping.start == object.text.front().start)
        out.insert({mapping.start, mapping.device, mapping.inode});
  return out;
}

// Reads only, on a thread of its own: nothing that it uses changes meanwhile.
std::unique_ptr<Libraries::Prepared> Libraries::prepare() const {
  auto out = std::make_unique<Prepared>();
  auto image = image::read_image(input_.image.pid);
  if (!image) {
    out->problem = image.error().text;
    return out;
  }
  out->image = std::move(*image);
  for (const image::Object& object : out->image.objects)
    for (const image::Mapping& mapping : out->image.mappings)
      if (mapping.start == object.text.front().start &&
          !known_.contains({mapping.start, mapping.device, mapping.inode}))
        out->objects.insert(&object);
  if (out->objects.empty()) return out;
  out->names = names_of_keys(input_.plan, out->image);
  image::LiveMemory memory(kernel::live_thread(input_.image.pid));
  image::Codes codes(out->image, memory);
  auto fresh = focus::bind(input_.plan, out->image, options_, &codes);
  if (!fresh) {
    out->problem = fresh.error().text;
    return out;
  }
  out->lost = std::move(fresh->lost);
  out->graft = focus::graft(input_.binding, *fresh, out->objects);
  out->coverage = patch::plan_coverage(
      input_.plan, out->graft.binding, out->image, memory, codes,
      {.only = &out->objects,
       .tails = {.may_wait = session_.layout.deferred != 0, .ends = session_.ends_deferred}});
  return out;
}

// The program itself is never loaded again: it has thrown away what was written to its code (MADV_DONTNEED, or
// its file mapped once more), and what it did from then on is missing.
bool Libraries::note_discarded(const Prepared& prepared) {
  const image::Object& program = prepared.image.objects.front();
  if (!prepared.objects.contains(&program)) return false;
  const std::set<uint32_t> requests =
      patch::requests_in(prepared.coverage, [&](const image::Object& one) { return &one == &program; });
  for (const uint32_t request : requests) session_.requests[request].early++;
  if (!requests.empty() && said_.insert(program.name).second)
    say(stderr,
        "warning: {} has put its own code back (madvise or mmap): what it did until the instrumentation was "
        "inserted again is not counted\n",
        program.name);
  return !requests.empty();
}

bool Libraries::insert(Prepared& prepared) {
  std::vector<std::string> names;
  for (const image::Object* object : prepared.objects) names.push_back(object->name);
  std::sort(names.begin(), names.end());
  const std::string who = fmt::format("{}", fmt::join(names, ", "));
  const bool wanted = std::any_of(prepared.coverage.functions.begin(), prepared.coverage.functions.end(),
                                  [](const patch::FunctionPlan& f) { return !f.sites.windows.empty(); });
  for (const std::string& why : prepared.lost)
    if (said_.insert(why).second) say(stderr, "warning: {} was loaded: {}\n", who, why);
  if (prepared.problem.empty() && !wanted) {
    reach_.add(input_.plan, prepared.coverage);  // what was refused
    patch::note_losses(reach_, input_.binding, session_);
    return false;
  }
  if (prepared.problem.empty()) {
    const patch::InsertInput input{.plan = input_.plan,
                                   .binding = prepared.graft.binding,
                                   .coverage = prepared.coverage,
                                   .image = prepared.image,
                                   .ticks_per_second = input_.ticks_per_second,
                                   .thread_at = input_.thread_at,
                                   .errno_at = input_.errno_at,
                                   .max_keys = input_.max_keys,
                                   .max_pause = input_.max_pause,
                                   .hit_time = input_.hit_time};
    auto extension = patch::extend(input, memory_, ++number_, session_);
    if (extension) {
      reach_.add(input_.plan, prepared.coverage);
      patch::note_losses(reach_, input_.binding, session_);
      if (input_.changes) inserted_.add(prepared.coverage);
      for (size_t i = 0; i < session_.requests.size(); i++) {
        session_.requests[i].refused += prepared.coverage.refused_of[i];
        session_.requests[i].early += prepared.coverage.early_of[i];
      }
      const bool discarded = note_discarded(prepared);
      say(stderr, "{} was {}: inserted {}{}\n", who, discarded ? "put back" : "loaded",
          points_text(extension->inserted),
          prepared.coverage.refused.empty() ? ""
                                            : fmt::format(", {} refused", prepared.coverage.refused.size()));
      for (const std::string& warning : extension->inserted.warnings) warn_once("{}", warning);
      if (prepared.graft.left_out)
        say(stderr,
            "warning: functions of {} that would be lines of their own have none: they were not there at "
            "the attach\n",
            who);
      extensions_.push_back(std::move(*extension));
      return true;
    }
    prepared.problem = extension.error().text;
  }
  // Another mdl-inject has put the original code back: nothing was loaded, and the next sample finds that
  // out.
  if (resident::is_in_place(session_, memory_))
    say(stderr, "warning: {} was loaded and is not instrumented: {}\n", who, prepared.problem);
  return false;
}

void Libraries::forget_unloaded(const image::Image& image) {
  std::erase_if(extensions_, [&](const patch::Extension& extension) {
    return patch::is_unloaded(extension, session_, image.mappings, memory_) &&
           patch::forget(extension, session_, image, memory_);
  });
}

// The linker takes a library out of its list before it unmaps it, and somebody may still be inside of what
// was added for it: then no change of the list says when that can be given back.
bool Libraries::some_were_left(std::chrono::steady_clock::time_point now) {
  if (extensions_.empty()) wait_ = kLookForUnloaded;
  if (extensions_.empty() || now < next_unloaded_) return false;
  const auto mappings = image::read_maps(kernel::live_thread(input_.image.pid));
  const bool found = mappings && std::ranges::any_of(extensions_, [&](const patch::Extension& extension) {
                       return patch::is_unloaded(extension, session_, *mappings, memory_);
                     });
  wait_ = found ? std::min<std::chrono::nanoseconds>(2 * wait_, kLongestWait) : kLookForUnloaded;
  next_unloaded_ = now + wait_;
  return found;
}

void Libraries::watch_windows() {
  watched_.clear();
  for (const resident::PatchedFile& file : session_.files)
    for (const resident::PatchedWindow& window : session_.windows)
      if (file.at.contains(window.address)) {
        watched_.push_back(window);
        break;
      }
}

bool Libraries::is_original(const resident::PatchedWindow& window) {
  now_.resize(window.original.size());
  return memory_.read(window.address, std::as_writable_bytes(std::span(now_))) && now_ == window.original;
}

// Unloaded and loaded again at the same place between two looks: only the code tells. (A removal by another
// looks the same; extend() finds that out.)
bool Libraries::some_were_reloaded() {
  return std::erase_if(watched_, [&](const resident::PatchedWindow& window) {
    if (!is_original(window)) return false;
    std::erase_if(known_, [&](const Identity& identity) {
      return std::any_of(session_.files.begin(), session_.files.end(),
                         [&](const resident::PatchedFile& file) {
                           return file.at.contains(window.address) && file.at.start == std::get<0>(identity);
                         });
    });
    return true;
  });
}

bool Libraries::is_as_before() {
  return !loaded_.empty() && list_->is_as_before(memory_) &&
         std::ranges::none_of(watched_, [&](const auto& window) { return is_original(window); });
}

bool Libraries::is_quiet() {
  const auto now = std::chrono::steady_clock::now();
  if (!list_ || now < next_) return true;
  if (preparing_.valid() || (!extensions_.empty() && now >= next_unloaded_) || !is_as_before()) return false;
  next_ = now + kLookForLibraries;
  return true;
}

bool Libraries::look() {
  const auto now = std::chrono::steady_clock::now();
  if (!list_ || now < next_) return false;
  next_ = now + kLookForLibraries;
  bool inserted = false;
  if (preparing_.valid()) {
    if (preparing_.wait_for(0s) != std::future_status::ready) return false;
    const std::unique_ptr<Prepared> prepared = preparing_.get();
    if (prepared->image.objects.empty()) return false;  // it is ending
    inserted = insert(*prepared);
    if (prepared->names) names_ = prepared->names;
    forget_unloaded(prepared->image);
    known_ = identities(prepared->image);
    watch_windows();
  }
  if (is_as_before()) {
    if (!some_were_left(now)) return inserted;
  } else {
    auto loaded = list_->read(memory_);
    if (!loaded || (*loaded == loaded_ && !some_were_reloaded() && !some_were_left(now))) return inserted;
    loaded_ = std::move(*loaded);
  }
  preparing_ = std::async(std::launch::async, [this] { return prepare(); });
  return inserted;
}

}  // namespace mdl::inject
