// Names everything public that has no doc comment: `node docs.mjs FILE…`, declarations that tsc has made.
import ts from 'typescript'

const program = ts.createProgram(process.argv.slice(2), { module: ts.ModuleKind.Node20, target: ts.ScriptTarget.ES2022, lib: ['lib.es2023.d.ts', 'lib.esnext.disposable.d.ts'], types: ['node'] })
const checker = program.getTypeChecker()
const bare = new Set()
const isDocumented = (symbol) => symbol.getDocumentationComment(checker).length > 0 || symbol.getJsDocTags(checker).some(({ name }) => name === 'internal')

function look(symbol, path) {
  if (!isDocumented(symbol)) bare.add(path)
  for (const [name, member] of symbol.members ?? []) {
    const of = String(name)
    // A constructor without a word has the arguments of its class; fields of answers are those of the HTTP API.
    if (of.startsWith('__') || (member.valueDeclaration ?? member.declarations?.[0])?.kind === ts.SyntaxKind.TypeParameter) continue
    if (member.flags & ts.SymbolFlags.Method && !isDocumented(member)) bare.add(`${path}.${of}`)
  }
}

for (const file of process.argv.slice(2)) {
  const module = checker.getSymbolAtLocation(program.getSourceFile(file))
  for (const one of checker.getExportsOfModule(module)) look(one.flags & ts.SymbolFlags.Alias ? checker.getAliasedSymbol(one) : one, one.name)
}
for (const one of bare) console.error(`${one}: no doc comment`)
process.exitCode = bare.size > 0 ? 1 : 0
