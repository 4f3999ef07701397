// Starts `mdlc --lsp`, the language server, for the MDL files of a window.
const path = require("path");
const { window, workspace } = require("vscode");
const { LanguageClient } = require("vscode-languageclient/node");

let client;

exports.activate = async () => {
  const settings = workspace.getConfiguration("mdl");
  const folder = workspace.workspaceFolders?.[0]?.uri.fsPath ?? ".";
  const command = settings.get("mdlc");
  const sources = settings.get("sources").map((source) => path.resolve(folder, source));
  client = new LanguageClient("mdl", "MDL", { command, args: ["--lsp", ...sources] }, { documentSelector: [{ language: "mdl" }] });
  try {
    await client.start();
  } catch (problem) {
    window.showErrorMessage(`Cannot start ${command}: ${problem.message}. The setting mdl.mdlc says where it is.`);
  }
};

exports.deactivate = () => client?.stop();
