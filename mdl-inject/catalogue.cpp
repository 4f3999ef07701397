#include "mdl-inject/catalogue.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "base/installed.h"
#include "base/read_text.h"
#include "base/say.h"
#include "mdl-inject/commands.h"
#include "runtime/focus/request.h"
#include "runtime/image/image.h"
#include "runtime/output/rows.h"
#include "runtime/plan/capabilities.h"
#include "runtime/plan/plan.h"
#include "runtime/process/target.h"

namespace mdl::inject {
namespace {

constexpr size_t kMostObjects = 12;
constexpr size_t kMostPlanBytes = size_t{16} << 20;  // of a plan

struct PlanBytes {
  std::string file;  // its name
  std::string bytes;
};
struct StandardPlan {
  std::string file;
  plan::Plan plan;
};

// Read before privileges are given up, with which the files go, and parsed behind that.
std::vector<PlanBytes> read_standard_plans() {
  std::vector<std::filesystem::path> files;
  std::error_code problem;
  for (const auto& entry : std::filesystem::directory_iterator(installed("plans"), problem))
    if (entry.path().extension() == ".plan") files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  std::vector<PlanBytes> plans;
  for (const auto& file : files)
    if (auto bytes = read_file(file.string(), kMostPlanBytes); bytes && bytes->size() <= kMostPlanBytes)
      plans.push_back({file.filename().string(), std::move(*bytes)});
  return plans;
}

std::vector<StandardPlan> parse_all(const std::vector<PlanBytes>& files) {
  std::vector<StandardPlan> plans;
  for (const PlanBytes& one : files)
    if (auto plan = plan::read_plan(std::as_bytes(std::span(one.bytes))))
      plans.push_back({one.file, std::move(*plan)});
  return plans;
}

std::string_view program_of(const image::Image& image) {
  return image.objects.empty() ? "" : std::string_view(image.objects[0].name);
}

// Those whose functions the process has. What memcached.plan names, all programs have, but it is about memcached.
std::set<std::string> metrics_of(const StandardPlan& standard, const image::Image& image) {
  constexpr std::string_view kMemcached = "memcached";
  if (standard.file.starts_with(kMemcached) && !program_of(image).starts_with(kMemcached)) return {};
  const plan::Plan& plan = standard.plan;
  focus::BindOptions all;
  all.allow_calls = all.allow_reads = all.elsewhere = true;
  std::set<std::string> found;
  if (auto binding = focus::bind(plan, image, all))
    for (const focus::BoundRequest& request : binding->requests) found.insert(request.metric);
  return found;
}

// Queries that mean something of most programs, and what they are about.
constexpr std::pair<std::string_view, std::string_view> kFirstQueries[] = {
    {"malloc", "hist $arg[0] at malloc"},
    {"main", "time main by thread"},
};

bool has_function(const image::Image& image, std::string_view name) {
  return std::ranges::any_of(image.objects, [&](const image::Object& object) {
    return std::ranges::any_of(object.functions.named(),
                               [&](const image::Function& one) { return one.name == name; });
  });
}

// Whose functions are asked about first: the program's, unless it does its work in a library and has but some of its own.
const image::Object& main_object(const image::Image& image) {
  constexpr size_t kSome = 10;
  constexpr std::string_view kOfAll[] = {"libc.", "libc-", "libm.", "libm-", "libstdc++"};
  const image::Object& program = image.objects[0];
  if (program.functions.size() >= kSome) return program;
  const auto size = [&](const image::Object& object) {
    const bool is_of_all =
        std::ranges::any_of(kOfAll, [&](std::string_view start) { return object.name.starts_with(start); });
    return is_of_all || object.is_loader || object.is_go ? size_t{0} : object.functions.size();
  };
  const image::Object& largest = *std::ranges::max_element(image.objects, {}, size);
  return size(largest) >= kSome ? largest : program;
}

Result<image::Image> look_at(const Options& options) {
  if (auto ok = separate_reading(options); !ok) return ok.error();
  if (auto ok = process::check_target(options.pid); !ok) return ok.error();
  return image::read_image(options.pid);
}

nlohmann::ordered_json row_of(const StandardPlan& standard, const format::Metric& metric) {
  return {{"plan", standard.file},
          {"metric", metric.id},
          {"name", metric.name},
          {"units", metric.units},
          {"needs_calls", !plan::capabilities(standard.plan).calls.empty()}};
}

}  // namespace

int print_metrics(const Options& options) {
  const std::vector<PlanBytes> files = read_standard_plans();
  std::optional<image::Image> image;
  if (options.pid != 0) {
    auto looked = look_at(options);
    if (!looked) return fail(looked.error());
    image = std::move(*looked);
  } else if (auto ok = separate_reading(options); !ok) {
    return fail(ok.error());
  }
  output::Rows rows(options.format);
  size_t width = 0, printed = 0;
  const std::vector<StandardPlan> plans = parse_all(files);
  for (const StandardPlan& one : plans)
    for (const format::Metric& metric : one.plan.manifest.metrics) width = std::max(width, metric.id.size());
  for (const StandardPlan& one : plans) {
    const std::set<std::string> found = image ? metrics_of(one, *image) : std::set<std::string>();
    bool headed = false;
    for (const format::Metric& metric : one.plan.manifest.metrics) {
      if (image && !found.contains(metric.id)) continue;
      if (rows.has_objects()) {
        say_text(stdout, rows.of(row_of(one, metric)));
        printed++;
        continue;
      }
      if (!headed)
        say("{}{}\n", one.file, plan::capabilities(one.plan).calls.empty() ? "" : " (needs --allow-calls)");
      say("  {:<{}}  {} ({})\n", metric.id, width, metric.name, metric.units);
      headed = true;
      printed++;
    }
  }
  say_text(stdout, rows.end());
  if (printed > 0) return 0;
  return fail({plans.empty()
                   ? std::string("there are no standard plans in share/mdl/plans beside mdl-inject")
                   : fmt::format("process {} has the functions of no standard metric", options.pid)});
}

int introduce(const Options& options) {
  const std::vector<PlanBytes> files = read_standard_plans();
  auto image = look_at(options);
  if (!image) return fail(image.error());
  std::vector<const image::Object*> objects;
  for (const image::Object& object : image->objects)
    if (!object.functions.empty()) objects.push_back(&object);
  say("Process {}: {}. What can be asked of it:\n", options.pid, program_of(*image));
  for (size_t i = 0; i < std::min(objects.size(), kMostObjects); ++i)
    say("  /Code/{}  {} functions{}\n", objects[i]->name, objects[i]->functions.size(),
        objects[i]->is_go ? " (Go code: not to be instrumented)" : "");
  if (objects.size() > kMostObjects) say("  and {} more objects\n", objects.size() - kMostObjects);
  const bool is_go = !image->objects.empty() && image->objects[0].is_go;
  if (is_go) say("Go code cannot be measured, C libraries beside it can (docs/refusals.md).\n");
  if (std::ranges::all_of(objects, [](const image::Object* one) { return one->is_go || one->is_loader; }))
    return 0;
  say("In one line (docs/queries.md; `mdl-inject strace` has the line for another tool):\n");
  if (!is_go && !image->objects.empty())
    say("  mdl-inject {} 'calls /Code/{}/*'\n", options.pid, main_object(*image).name);
  for (const auto& [function, query] : kFirstQueries)
    if (has_function(*image, function)) say("  mdl-inject {} '{}'\n", options.pid, query);
  std::string plans;
  for (const StandardPlan& one : parse_all(files))
    if (const size_t count = metrics_of(one, *image).size(); count > 0)
      plans += fmt::format("{}{} ({} of {})", plans.empty() ? "" : ", ", one.file, count,
                           one.plan.manifest.metrics.size());
  if (!plans.empty()) {
    say("By standard metrics, of which it has the functions of so many:\n  {}\n", plans);
    say("  mdl-inject {} code.plan; mdl-inject --metrics {} lists them\n", options.pid, options.pid);
  }
  say("mdl-inject --list {} names every function.\n", options.pid);
  return 0;
}

}  // namespace mdl::inject
