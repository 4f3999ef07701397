#include "mdlc/options.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <map>
#include <string_view>

#include "backend/mc_emitter.h"
#include "base/say.h"
#include "compiler/passes/passes.h"
#include "format/manifest.h"
#include "mdlc/arguments.h"

namespace mdl::mdlc {
namespace {

std::string target_names() {
  std::string names;
  for (const backend::Target* target : backend::all_targets())
    names += fmt::format("{}{}", names.empty() ? "" : ", ", target->name);
  return names;
}

std::string pass_names() {
  std::string names;
  for (const passes::Pass& pass : passes::all_passes())
    names += fmt::format("{}{}", names.empty() ? "" : ", ", pass.name);
  return names;
}

// Each check returns what is wrong, "" for nothing: CLI11's convention.
std::string check_target(const std::string& name) {
  return backend::find_target(name)
             ? ""
             : fmt::format("this mdlc has no target '{}'; it has {}", name, target_names());
}
std::string check_pass(const std::string& name) {
  return passes::is_pass(name) ? "" : fmt::format("there is no pass '{}'; there are {}", name, pass_names());
}

void set_warnings(WarningPolicy& policy, const std::vector<std::string>& words) {
  for (const std::string& word : words)
    if (std::string wrong = policy.apply(word); !wrong.empty())
      throw CLI::ValidationError("-W" + word, wrong);
}

// An option whose value is one of a few words.
template <typename Value>
void add_choice(CLI::App& app, const char* name, Value& into, const std::map<std::string, Value>& words,
                const char* type, const std::string& description) {
  auto set = [name, &into, words](const std::string& word) {
    auto found = words.find(word);
    std::string known;
    for (const auto& [one, value] : words) known += fmt::format("{}{}", known.empty() ? "" : ", ", one);
    if (found == words.end())
      throw CLI::ValidationError(name, fmt::format("'{}' is none of {}", word, known));
    into = found->second;
  };
  app.add_option_function<std::string>(name, set, description)->type_name(type);
}

void declare(CLI::App& app, Options& options, std::string& target, std::vector<std::string>& passes) {
  app.add_option("FILE", options.files, "metric descriptions, read as one program in this order");
  app.add_option("-o", options.output, "output file; - is standard output (default: plan.bin)")
      ->type_name("FILE");
  app.add_option("-I", options.directories, "look for a FILE here too")
      ->type_name("DIR")
      ->allow_extra_args(false);
  app.add_option("--use", options.libraries,
                 "read FILE for the constraints and lists that others use, without its metrics")
      ->type_name("FILE")
      ->allow_extra_args(false);
  app.add_option("--query", options.queries,
                 "compile a metric in one line, such as 'count malloc if $arg[0] > 4096'; may be repeated")
      ->type_name("QUERY")
      ->allow_extra_args(false);
  app.add_option("--target", target, "machine: " + target_names())->check(check_target)->type_name("NAME");
  app.add_option("--mcpu", options.cpu, "CPU of that machine (also -mcpu=CPU)")->type_name("CPU");
  add_choice<Standard>(app, "--std", options.standard,
                       {{"mdl26", Standard::mdl26}, {"classic", Standard::classic}}, "STANDARD",
                       "language: mdl26 (default) or classic");
  app.add_option("--flavor", options.flavor, "leave out what is of another flavor")->type_name("NAME");
  add_choice<Emit>(app, "--emit", options.emit,
                   {{"plan", Emit::plan},
                    {"ast", Emit::ast},
                    {"ir", Emit::ir},
                    {"asm", Emit::assembly},
                    {"mdl", Emit::mdl}},
                   "KIND", "what to write: plan (default), ast, ir, asm; mdl: what the queries stand for");
  CLI::Option* reformat =
      app.add_flag("--reformat", options.reformat,
                   "print the files in the standard layout; with --check, list which differ");
  app.add_flag("-i,--in-place", options.in_place, "with --reformat: rewrite the files")->needs(reformat);
  app.add_flag("--lsp", options.language_server,
               "serve an editor on standard input and output; the files are part of every program");
  app.add_flag("--apply-fixes", options.apply_fixes, "make the changes that hints propose, in the files");
  app.add_flag("--cost", options.cost, "write what each stencil is predicted to cost, as a table");
  app.add_flag("--check", options.check_only, "compile and write nothing");
  app.add_option("--disable-pass", passes, "leave out an optimization: " + pass_names())
      ->check(check_pass)
      ->type_name("NAME")
      ->allow_extra_args(false);
  app.add_option("--sign", options.key, "sign the plan with a private Ed25519 key (PEM)")
      ->type_name("KEY.pem");
  const auto take_edition = [&](const std::string& text) {
    auto given = format::parse_edition(text);
    if (!given) throw CLI::ValidationError("--edition", given.error().text);
    options.edition.name = given->name;
    options.edition.version = given->version;
  };
  app.add_option_function<std::string>("--edition", take_edition,
                                       "with --sign: the plan's name and version, which the signature covers")
      ->type_name("NAME=VERSION");
  app.add_option("--not-after", options.edition.not_after,
                 "with --edition: the last day on which the plan may be used (UTC)")
      ->type_name("YYYY-MM-DD");
  app.add_option_function<std::vector<std::string>>(
         "-W", [&](const std::vector<std::string>& words) { set_warnings(options.warnings, words); },
         "-Wno-NAME: no such warning; -Werror, -Werror=NAME: as errors; names stand behind a warning; "
         "-Wvector: "
         "say what stands in the way of a focus with *")
      ->type_name("WARNING")
      ->allow_extra_args(false);
  add_choice<Colour>(
      app, "--color", options.colour,
      {{"auto", Colour::automatic}, {"always", Colour::always}, {"never", Colour::never}}, "WHEN",
      "colours in messages: auto (default; on a terminal, unless NO_COLOR is set), always, never");
  app.add_option("--depfile", options.dependencies, "write the files read to FILE, for make (also -MD FILE)")
      ->type_name("FILE");
  add_choice<Format>(app, "--diagnostics", options.diagnostics,
                     {{"text", Format::text}, {"json", Format::json}, {"sarif", Format::sarif}}, "FORMAT",
                     "how errors are written: text (default), json, sarif");
  app.add_option("--explain", options.explain, "say what the code of an error or warning means")
      ->type_name("CODE|NAME");
  app.set_version_flag("--version", fmt::format("mdlc {} (plan format {})", MDL_VERSION, format::kFormat));
}

int usage(const std::string& what) {
  say(stderr, "mdlc: {}\nTry 'mdlc --help'.\n", what);
  return static_cast<int>(Status::usage);
}

}  // namespace

Parsed parse_options(int argc, const char* const* argv) {
  Parsed parsed;
  Options& options = parsed.options;
  std::string target(backend::all_targets()[0]->name);
  std::vector<std::string> disabled;
  CLI::App app("Compiles metric descriptions (MDL) to a plan for mdl-inject.", "mdlc");
  declare(app, options, target, disabled);

  auto expanded = arguments(argc, argv);
  if (!expanded) {
    parsed.exit = usage(expanded.error().text);
    return parsed;
  }
  std::vector<std::string> words = std::move(*expanded);
  std::reverse(words.begin(), words.end());  // CLI11 takes them from the back
  try {
    app.parse(std::move(words));
  } catch (const CLI::Success& request) {  // --help, --version
    parsed.exit = app.exit(request);
    return parsed;
  } catch (const CLI::ParseError& error) {
    parsed.exit = usage(error.what());
    return parsed;
  }
  options.target = backend::find_target(target);
  options.disabled_passes.insert(disabled.begin(), disabled.end());
  if (options.cpu.empty()) options.cpu = options.target->cpu;
  if (options.cpu == "native") options.cpu = backend::native_cpu(options.target->triple);
  if (auto cpu = backend::check_cpu(options.target->triple, options.cpu, options.target->required); !cpu)
    parsed.exit = usage(options.cpu.empty() ? fmt::format("this machine is none of {}", target)
                                            : fmt::format("{}", cpu.error().text));
  else if (options.files.empty() && options.queries.empty() && options.explain.empty() &&
           !options.language_server)
    parsed.exit = usage("no input file");
  else if (!options.queries.empty() && (options.reformat || options.language_server || options.apply_fixes))
    parsed.exit = usage("--query does not go with --reformat, --lsp and --apply-fixes, which are for files");
  else if (options.emit == Emit::mdl && options.queries.empty())
    parsed.exit = usage("--emit=mdl shows what a --query stands for");
  else if (!options.key.empty() && (options.emit != Emit::plan || options.check_only || options.cost ||
                                    options.reformat || options.language_server))
    parsed.exit = usage("--sign is for plans: not with --check, --cost, --reformat, --lsp or another --emit");
  else if (!options.edition.name.empty() && options.key.empty())
    parsed.exit = usage("--edition is for signed plans: it needs --sign");
  else if (!options.edition.not_after.empty() && options.edition.name.empty())
    parsed.exit = usage("--not-after needs --edition");
  else if (!options.edition.not_after.empty() && !format::is_day(options.edition.not_after))
    parsed.exit =
        usage(fmt::format("--not-after: '{}' is no day such as 2027-01-31", options.edition.not_after));
  return parsed;
}

}  // namespace mdl::mdlc
