// The protocol's life cycle and its table of methods. The client is not trusted: whatever it
// sends is answered with a result or an error of JSON-RPC, or ignored where the protocol says so.
#include "mdlc/lsp/server.h"

#include <fmt/format.h>
#include <unistd.h>

#include <csignal>
#include <exception>
#include <optional>

#include "base/json.h"
#include "mdlc/lsp/features.h"
#include "mdlc/lsp/transport.h"

namespace mdl::lsp {
namespace {

// The codes of JSON-RPC 2.0, and of the protocol.
enum class ErrorCode : int {
  parse_error = -32700,
  invalid_request = -32600,
  method_not_found = -32601,
  invalid_params = -32602,
  internal_error = -32603,
  not_initialized = -32002,
};

struct Failure {
  ErrorCode code;
  std::string text;
};

constexpr int kMaxDepth = 64;  // of JSON: the protocol needs a few levels

class Server {
 public:
  Server(const mdlc::Options& options, int in, int out)
      : options_(options), transport_(in, out), documents_(options) {}

  int run();

 private:
  enum class State : uint8_t { fresh, running, shut_down };

  struct Method {
    std::string_view name;
    bool request;
    Json (Server::*handle)(const Json& params);
  };
  static const Method kMethods[];

  // --- Messages ---
  void receive(const std::string& text);
  void dispatch(const Json& message);
  Json call(const Method& method, const Json& params);
  void send(const Json& message);
  void fail(const Json& id, const Failure& failure);
  void notify(std::string_view method, Json params);

  // --- Methods ---
  Json initialize(const Json& params);
  Json initialized(const Json&) { return nullptr; }
  Json shutdown(const Json&);
  Json exit(const Json&);
  Json did_open(const Json& params);
  Json did_change(const Json& params);
  Json did_close(const Json& params);
  Json hover(const Json& params);
  Json definition(const Json& params);
  Json completion(const Json& params);
  Json formatting(const Json& params);
  Json code_action(const Json& params);

  void open(const std::string& uri, int64_t version, std::string text);
  const Document& document(const Json& params) const;
  uint32_t place(const Document& document, const Json& position) const {
    return offset(document.analysis->source(), position, encoding_);
  }

  const mdlc::Options& options_;
  Transport transport_;
  Documents documents_;
  State state_ = State::fresh;
  Encoding encoding_ = Encoding::utf16;
  std::optional<int> exit_status_;
};

const Server::Method Server::kMethods[] = {
    {"initialize", true, &Server::initialize},
    {"initialized", false, &Server::initialized},
    {"shutdown", true, &Server::shutdown},
    {"exit", false, &Server::exit},
    {"textDocument/didOpen", false, &Server::did_open},
    {"textDocument/didChange", false, &Server::did_change},
    {"textDocument/didClose", false, &Server::did_close},
    {"textDocument/hover", true, &Server::hover},
    {"textDocument/definition", true, &Server::definition},
    {"textDocument/completion", true, &Server::completion},
    {"textDocument/formatting", true, &Server::formatting},
    {"textDocument/codeAction", true, &Server::code_action},
};

int Server::run() {
  using Kind = Transport::Received::Kind;
  while (!exit_status_) {
    Transport::Received received = transport_.receive();
    if (received.kind == Kind::end) break;
    if (received.kind == Kind::bad)
      fail(nullptr, {ErrorCode::invalid_request, received.text});
    else
      receive(received.text);
  }
  return exit_status_.value_or(state_ == State::shut_down ? 0 : 1);
}

// --- Messages ---

void Server::receive(const std::string& text) {
  bool deep = false;
  auto keep = [&](int depth, Json::parse_event_t, Json&) {
    deep = deep || depth > kMaxDepth;
    return depth <= kMaxDepth;
  };
  Json message = Json::parse(text, keep, false);
  if (message.is_discarded()) return fail(nullptr, {ErrorCode::parse_error, "this is not JSON"});
  if (deep) return fail(nullptr, {ErrorCode::invalid_request, "the message is nested too deeply"});
  dispatch(message);
}

void Server::dispatch(const Json& message) {
  auto member = [&](const char* name) {
    return message.is_object() && message.contains(name) ? message.at(name) : Json();
  };
  Json id = member("id"), name = member("method");
  bool has_id = message.is_object() && message.contains("id");
  if (has_id && !id.is_number_integer() && !id.is_string()) id = nullptr;
  if (member("jsonrpc") != "2.0") return fail(id, {ErrorCode::invalid_request, "this is not JSON-RPC 2.0"});
  if (name.is_null() && has_id) return;  // an answer, though nothing was asked
  if (!name.is_string()) return fail(id, {ErrorCode::invalid_request, "the message has no method"});
  if (has_id && id.is_null())
    return fail(id, {ErrorCode::invalid_request, "the id is no number and no string"});

  const auto& wanted = name.get_ref<const std::string&>();
  const Method* method = nullptr;
  for (const Method& m : kMethods)
    if (m.name == wanted) method = &m;
  try {
    if (method == nullptr)
      throw Failure{ErrorCode::method_not_found, "there is no method " + printable(wanted)};
    if (method->request && !has_id) throw Failure{ErrorCode::invalid_request, "this request has no id"};
    Json result = call(*method, member("params"));
    if (has_id) send({{"jsonrpc", "2.0"}, {"id", id}, {"result", std::move(result)}});
  } catch (const Failure& failure) {
    // A notification has no answer; one that means nothing here is not worth a word.
    if (has_id) fail(id, failure);
  }
}

Json Server::call(const Method& method, const Json& params) {
  bool ends = method.name == "exit";
  if (state_ == State::fresh && method.name != "initialize" && !ends)
    throw Failure{ErrorCode::not_initialized, "the first request is 'initialize'"};
  if (state_ == State::shut_down && !ends)
    throw Failure{ErrorCode::invalid_request, "after 'shutdown' comes 'exit'"};
  try {
    return (this->*method.handle)(params);
  } catch (const Json::exception& error) {
    throw Failure{ErrorCode::invalid_params, error.what()};
  } catch (const std::exception& error) {
    throw Failure{ErrorCode::internal_error, error.what()};
  }
}

void Server::send(const Json& message) {
  if (!transport_.send(write_json(message))) exit_status_ = 1;
}

void Server::fail(const Json& id, const Failure& failure) {
  Json error = {{"code", static_cast<int>(failure.code)}, {"message", failure.text}};
  send({{"jsonrpc", "2.0"}, {"id", id}, {"error", std::move(error)}});
}

void Server::notify(std::string_view method, Json params) {
  send({{"jsonrpc", "2.0"}, {"method", method}, {"params", std::move(params)}});
}

// --- Life cycle ---

Json Server::initialize(const Json& params) {
  if (state_ != State::fresh) throw Failure{ErrorCode::invalid_request, "'initialize' comes once"};
  const Json::json_pointer offered("/capabilities/general/positionEncodings");
  if (params.is_object() && params.contains(offered) && params.at(offered).is_array())
    for (const Json& encoding : params.at(offered))
      if (encoding == "utf-8") encoding_ = Encoding::utf8;
  state_ = State::running;
  Json capabilities = {{"positionEncoding", encoding_ == Encoding::utf8 ? "utf-8" : "utf-16"},
                       {"textDocumentSync", {{"openClose", true}, {"change", 1}}},
                       {"hoverProvider", true},
                       {"definitionProvider", true},
                       {"completionProvider", {{"triggerCharacters", {".", "$"}}}},
                       {"documentFormattingProvider", true},
                       {"codeActionProvider", {{"codeActionKinds", {"quickfix"}}}}};
  return {{"capabilities", std::move(capabilities)},
          {"serverInfo", {{"name", "mdlc"}, {"version", MDL_VERSION}}}};
}

Json Server::shutdown(const Json&) {
  state_ = State::shut_down;
  return nullptr;
}

Json Server::exit(const Json&) {
  exit_status_ = state_ == State::shut_down ? 0 : 1;
  return nullptr;
}

// --- Documents ---

void Server::open(const std::string& uri, int64_t version, std::string text) {
  if (const Document* document = documents_.open(uri, version, std::move(text)))
    return notify("textDocument/publishDiagnostics", diagnostics_of(*document, encoding_));
  notify(
      "window/logMessage",
      {{"type", 1}, {"message", fmt::format("more than {} documents are open", Documents::kMaxDocuments)}});
}

Json Server::did_open(const Json& params) {
  const Json& item = params.at("textDocument");
  open(item.at("uri").get<std::string>(), item.at("version").get<int64_t>(),
       item.at("text").get<std::string>());
  return nullptr;
}

// Changes are whole texts; the last one counts.
Json Server::did_change(const Json& params) {
  const Json& id = params.at("textDocument");
  const Document& changed = document(params);
  const Json& changes = params.at("contentChanges");
  if (!changes.is_array() || changes.empty()) return nullptr;
  const Json& last = changes.back();
  if (last.contains("range")) throw Failure{ErrorCode::invalid_params, "changes are whole texts"};
  std::string uri = changed.uri;
  open(uri, id.value("version", changed.version), last.at("text").get<std::string>());
  return nullptr;
}

Json Server::did_close(const Json& params) {
  std::string uri = document(params).uri;
  documents_.close(uri);
  notify("textDocument/publishDiagnostics", {{"uri", uri}, {"diagnostics", Json::array()}});
  return nullptr;
}

const Document& Server::document(const Json& params) const {
  const auto uri = params.at("textDocument").at("uri").get<std::string>();
  const Document* found = documents_.find(uri);
  if (found == nullptr)
    throw Failure{ErrorCode::invalid_params, fmt::format("'{}' is not open", printable(uri, 200))};
  return *found;
}

// --- Questions ---

Json Server::hover(const Json& params) {
  const Document& d = document(params);
  return lsp::hover(d, place(d, params.at("position")), encoding_, options_.target->name);
}

Json Server::definition(const Json& params) {
  const Document& d = document(params);
  return lsp::definition(d, place(d, params.at("position")), encoding_);
}

Json Server::completion(const Json& params) {
  const Document& d = document(params);
  return lsp::completion(d, place(d, params.at("position")));
}

Json Server::formatting(const Json& params) {
  return lsp::formatting(document(params), encoding_, options_.standard);
}

Json Server::code_action(const Json& params) {
  const Document& d = document(params);
  const Json& range = params.at("range");
  Span span{d.analysis->file, place(d, range.at("start")), place(d, range.at("end"))};
  return lsp::code_actions(d, span, encoding_);
}

}  // namespace

int serve(const mdlc::Options& options, int in, int out) {
  std::signal(SIGPIPE, SIG_IGN);  // a client that is gone is seen when writing fails
  return Server(options, in, out).run();
}

}  // namespace mdl::lsp
