{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"capabilities":{}}}
{"jsonrpc":"2.0","method":"initialized","params":{}}
{"jsonrpc":"2.0","method":"textDocument/didOpen","params":{"textDocument":{"uri":"file:///d.mdl","languageId":"mdl","version":1,"text":"resourceList w is procedure { items { \"f\" }; flavor { unix }; }\nmetric m { name \"M\"; units U; aggregateOperator sum; style EventCounter; flavor { unix };\n  base is counter { foreach func in w { append preInsn func.entry (* m++; *) } } }\n"}}}
{"jsonrpc":"2.0","id":2,"method":"textDocument/hover","params":{"textDocument":{"uri":"file:///d.mdl"},"position":{"line":2,"character":40}}}
{"jsonrpc":"2.0","id":3,"method":"textDocument/completion","params":{"textDocument":{"uri":"file:///d.mdl"},"position":{"line":2,"character":40}}}
{"jsonrpc":"2.0","id":4,"method":"textDocument/definition","params":{"textDocument":{"uri":"file:///d.mdl"},"position":{"line":2,"character":40}}}
{"jsonrpc":"2.0","id":5,"method":"textDocument/formatting","params":{"textDocument":{"uri":"file:///d.mdl"},"options":{"tabSize":2,"insertSpaces":true}}}
{"jsonrpc":"2.0","id":6,"method":"textDocument/codeAction","params":{"textDocument":{"uri":"file:///d.mdl"},"range":{"start":{"line":0,"character":0},"end":{"line":2,"character":5}},"context":{"diagnostics":[]}}}
{"jsonrpc":"2.0","method":"textDocument/didChange","params":{"textDocument":{"uri":"file:///d.mdl","version":2},"contentChanges":[{"range":{"start":{"line":1,"character":3},"end":{"line":1,"character":9}},"text":"x"}]}}
{"jsonrpc":"2.0","method":"textDocument/didClose","params":{"textDocument":{"uri":"file:///d.mdl"}}}
{"jsonrpc":"2.0","id":7,"method":"shutdown"}
{"jsonrpc":"2.0","method":"exit"}
