/**
 * Compiles the examples of module headers and documents, and runs those that state a result. Part of `npm run check`.
 *
 * Each `ts` block becomes a module in `.cache/examples`, and one `tsc` checks them all against the declarations. A
 * block may use without an import: names of `effect`, `effect/ai` and the other modules below, public names of our
 * packages, and the values that `examples/prelude.ts` declares. A block with `yield*` outside a function is the body
 * of an `Effect.gen`.
 *
 * A block is run when it states a result behind an expression or a `const`: `// => { a: 1 }`, where `...` stands for
 * further fields, and a regular expression matches a string; or `// throws Name: message`, on the same line or the next
 * one. `// e.g.` states a result that depends on a provider. Such a block is not run.
 */
import { spawnSync } from "node:child_process"
import { globSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { join, relative } from "node:path"
import { pathToFileURL } from "node:url"
import { notYet } from "./pages/blocks.ts"

const root = join(import.meta.dirname, "..")
const out = join(root, ".cache", "examples")

/** Modules whose names need no import, first match first. A header's own package comes before them. */
const packages = [
  "resilience",
  "agent",
  "providers",
  "ai-sdk",
  "delivery",
  "tasks",
  "node",
  "testing",
  "gateway"
]
const entries = packages.flatMap((name) => {
  const { exports }: { readonly exports: Readonly<Record<string, unknown>> } = JSON.parse(
    readFileSync(join(root, "packages", name, "package.json"), "utf8")
  )
  return Object.entries(exports)
    .filter(([path, entry]) => entry !== null && path !== "./package.json" && !/\/[A-Z]/.test(path))
    .map(([path]) => join("@outlast", name, path))
})
const foreign = [
  "effect",
  "effect/ai",
  "effect/sql",
  "effect/persistence",
  "effect/observability",
  "effect/http",
  "effect/testing",
  "@effect/platform-node",
  "@effect/vitest",
  "@ai-sdk/anthropic",
  "ai"
]
const names = new Map<string, ReadonlyArray<string>>()
for (const module of [...entries, ...foreign]) {
  for (const name of Object.keys((await import(module)) as object)) {
    names.set(name, [...(names.get(name) ?? []), module])
  }
}

interface Block {
  readonly file: string
  /** Line of the fence. */
  readonly line: number
  readonly code: string
}

/**
 * Pages whose blocks are not programs yet; `scripts/pages.ts` checks the others. `docs/understand/composition.md` quotes a
 * test, and `test/docs.test.ts` compares the two.
 */
const documents = notYet.filter((file) => file !== "docs/understand/composition.md")
const sources = globSync("packages/*/src/**/*.ts", { cwd: root })

const blocksOf = (file: string): ReadonlyArray<Block> => {
  const text = readFileSync(join(root, file), "utf8")
  return [...text.matchAll(/^( \* )?```ts\n([\s\S]*?)^(?: \* )?```$/gm)].map((found) => ({
    file,
    line: text.slice(0, found.index).split("\n").length,
    // The formatter of Markdown writes `yield *` outside functions.
    code: (found[2] ?? "")
      .replaceAll(/\byield \*/g, "yield*")
      .replaceAll(found[1] === undefined ? /$^/gm : /^ \*(?: |$)/gm, "")
  }))
}

/** The code without strings and comments, for finding names. Expressions inside templates stay. */
const bare = (code: string): string =>
  code.replaceAll(/\/\/.*$/gm, "").replaceAll(/"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'/g, '""')

/** True when `yield*` stands outside the generator functions of the block. */
const isBody = (code: string): boolean => {
  let rest = bare(code)
  for (let at = rest.indexOf("function*"); at >= 0; at = rest.indexOf("function*")) {
    let end = rest.indexOf("{", at)
    for (let depth = 0; end < rest.length; end++) {
      if (rest[end] === "{") depth++
      if (rest[end] === "}" && --depth === 0) break
    }
    rest = rest.slice(0, at) + rest.slice(end + 1)
  }
  return rest.includes("yield*")
}

/** The import of a name of an internal module, in the header of that module. */
const internal = (file: string, name: string): ReadonlyArray<string> => {
  if (!file.startsWith("packages/")) return []
  const path = `../../${file.replace("/src/", "/dist/").replace(/ts$/, "js")}`
  if (file.endsWith(`/${name}.ts`) && !isExported(file, name)) return [`import * as ${name} from "${path}"`]
  if (!isExported(file, name)) return []
  return [`import { ${isExported(file, name, "interface|type") ? "type " : ""}${name} } from "${path}"`]
}

const isExported = (file: string, name: string, kinds = "const|class|function|interface|type"): boolean =>
  new RegExp(`^export (?:${kinds}) ${name}\\b`, "m").test(readFileSync(join(root, file), "utf8"))

/** The import lines for names that the block uses and does not declare. */
const importsFor = ({ file, code }: Block): string => {
  const own = /^packages\/([\w-]+)\//.exec(file)?.[1]
  const text = bare(code)
  const used = new Set(text.match(/(?<=^|[^.\w$]|\.\.\.)[A-Za-z_$][\w$]*/gm))
  const declared = new Set(
    [...text.matchAll(/\b(?:const|let|class|interface|type|function)\s+(\w+)|\bimport\b([^;]*?)\bfrom\b/g)]
      .flatMap(([, name, list = ""]) => [name ?? "", ...(list.match(/\w+/g) ?? [])])
      .concat(
        [...text.matchAll(/\bconst\s*[[{]([^=]*?)[\]}]\s*=/g)].flatMap(
          ([, list = ""]) => list.match(/\w+/g) ?? []
        )
      )
  )
  const before = (module: string): number =>
    own !== undefined && module.startsWith(`@outlast/${own}`) ? 0 : 1
  return [...used]
    .filter((name) => !declared.has(name) && !preludeNames.has(name) && !(name in globalThis))
    .flatMap((name) => {
      const from = (names.get(name) ?? []).toSorted((a, b) => before(a) - before(b))[0]
      return from === undefined ? internal(file, name) : [`import { ${name} } from "${from}"`]
    })
    .join("; ")
}

const prelude = readFileSync(join(import.meta.dirname, "examples", "prelude.ts"), "utf8")
const preludeNames = new Set([...prelude.matchAll(/^  (?:const|class) (\w+)/gm)].map(([, name = ""]) => name))

/** Replaces stated results by checks, on the same line. */
const withChecks = (code: string): string =>
  code
    .replaceAll(/^(.*\S)(?: |\n)\/\/ throws (.*)$/gm, (all, expression: string, message: string) => {
      const gap = all.includes("\n") ? "\n" : " "
      return `throws(() => ${expression.startsWith("throw ") ? `{ ${expression} }` : expression}, ${JSON.stringify(message)})${gap}`
    })
    .replaceAll(
      /^(?:const (\w+|\[.*?\]) = )?(.*\S) \/\/ => (.*)$/gm,
      (_, name: string, value: string, stated: string) => {
        const wanted = `(${stated.replaceAll(/(?<=[[{,] )\.\.\.(?= [\]}])/g, "...rest")})`
        return name === undefined
          ? `equal(${value}, ${wanted})`
          : `const ${name} = ${value}; equal(${name}, ${wanted})`
      }
    )

const moduleOf = (block: Block): { readonly text: string; readonly isRun: boolean } => {
  const isRun = / \/\/ => |\/\/ throws /.test(block.code)
  const code = isRun ? withChecks(block.code) : block.code
  const lines = code.split("\n")
  const wraps = isBody(code)
  const heads = lines.map((line) => (wraps && line.startsWith("import ") ? line : ""))
  const body = wraps ? lines.map((line) => (line.startsWith("import ") ? "" : line)).join("\n") : code
  const checks = isRun ? 'import { equal, rest, throws } from "../../scripts/examples/checks.ts"; ' : ""
  const open = wraps
    ? 'import { Effect as Eff } from "effect"; export const example = Eff.gen(function* () {'
    : ""
  const close = wraps ? "})" : "export {}"
  return { text: `${checks}${importsFor(block)}; ${heads.join(" ")} ${open}\n${body}\n${close}\n`, isRun }
}

rmSync(out, { recursive: true, force: true })
mkdirSync(out, { recursive: true })
const blocks = [...documents, ...sources].flatMap(blocksOf)
const modules = blocks.map((block) => {
  const name = `${block.file.replaceAll(/[^\w]+/g, "-")}-${block.line}.ts`
  const module = { block, name, ...moduleOf(block) }
  writeFileSync(join(out, name), module.text)
  return module
})
writeFileSync(
  join(out, "tsconfig.json"),
  JSON.stringify({
    extends: "../../tsconfig.base.json",
    compilerOptions: {
      composite: false,
      incremental: false,
      declaration: false,
      declarationMap: false,
      emitDeclarationOnly: false,
      noEmit: true,
      noUnusedLocals: false,
      allowUnreachableCode: true,
      customConditions: []
    },
    include: ["*.ts", relative(out, join(import.meta.dirname, "examples", "prelude.ts"))]
  })
)

const tsc = spawnSync(join(root, "node_modules/.bin/tsc"), ["-p", out, "--pretty", "false"], {
  cwd: out,
  encoding: "utf8"
})
// Names the line of the example instead of that of its module.
const messages = tsc.stdout.replaceAll(
  /^([\w-]+\.ts)\((\d+),(\d+)\)/gm,
  (all, name: string, line: string, column: string) => {
    const found = modules.find((module) => module.name === name)?.block
    return found === undefined ? all : `${found.file}:${found.line + Number(line) - 1}:${column}`
  }
)
if (tsc.status !== 0) {
  console.error(messages + tsc.stderr)
  process.exitCode = 1
}

let failed = 0
const runs = modules.filter(({ isRun }) => isRun)
for (const { block, name, text } of tsc.status === 0 ? runs : []) {
  // Examples run from sources: an internal module has no file of its own in `dist`.
  writeFileSync(join(out, name), text.replaceAll(/\/dist\/(\S+)\.js"/g, '/src/$1.ts"'))
  try {
    await import(pathToFileURL(join(out, name)).href)
  } catch (error) {
    failed++
    console.error(`${block.file}:${block.line}: ${error instanceof Error ? error.message : String(error)}`)
  }
}
if (failed > 0) process.exitCode = 1
if (process.exitCode !== 1)
  console.log(`${modules.length} examples compile, ${runs.length} of them were run.`)
