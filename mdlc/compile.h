// Sources to what was asked for: the steps of the compiler, one after the other.
#pragma once

#include <string>

#include "backend/plan_writer.h"
#include "base/result.h"
#include "compiler/ast/ast.h"
#include "compiler/query/expand.h"
#include "compiler/support/diagnostics.h"
#include "mdlc/options.h"

namespace mdl::mdlc {

// Reads the files of the command line into `sources`.
Result<void> read_files(const Options& options, Sources& sources);

// Adds what the queries of the command line stand for, as one more source, and behind it their own texts, to which
// messages point. The number of sources to compile is then one more than that of the files.
query::Expansion add_queries(const Options& options, Sources& sources, Diagnostics& diagnostics);

// The bytes to write. When the source has errors they are in `diagnostics`, and the bytes
// are empty; an Error is a defect of ours.
Result<std::string> compile(const Options& options, const Sources& sources, const query::Expansion& queries,
                            Diagnostics& diagnostics);

// The plan of trees from parse(), before it is bytes. It means nothing if there are errors.
Result<backend::PlanText> plan_of(const std::vector<ast::File>& files, const Sources& sources,
                                  const Options& options, Diagnostics& diagnostics);

}  // namespace mdl::mdlc
