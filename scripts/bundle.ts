/**
 * Writes the JavaScript of each package to `dist`. `tsc -b` writes the declarations.
 *
 * Node needs much longer to load 300 small modules than a few large ones, so the code of a package is in a few files in
 * `dist/chunks`. A public module is a small file that exports from them. A chunk has the modules that the same entries
 * load: index files, commands, dynamic imports and started files. Each module is in one chunk. Other packages stay
 * imports.
 *
 * Modules of Effect are imported by their own paths: `effect/Schema` instead of `{ Schema }` of `effect`, whose index loads
 * all of them. They are the same modules. An import of another name from the index is an error.
 *
 * A chunk is two folders below its package, like `src/ops`. A path that a module builds from `import.meta.url` starts at
 * the package, `../../src/ops/page/`, and must exist.
 */
import { existsSync, globSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs"
import { basename, dirname, isAbsolute, join } from "node:path"
import { fileURLToPath } from "node:url"
import type { ChunkingContext, Plugin } from "rolldown"
import { rolldown } from "rolldown"

const root = join(import.meta.dirname, "..", "packages")

/**
 * Modules whose imports are one chunk, `main`, also where other entries load a part of them. The folders of `agent` need
 * each other, and every command loads the program first.
 */
const joined: Readonly<Record<string, string>> = { agent: "index", cli: "program" }

/** Files that a package starts by their path. */
const started: Readonly<Record<string, ReadonlyArray<string>>> = { node: ["./dist/sqlite/SqliteWorker.js"] }

interface Package {
  readonly bin?: Readonly<Record<string, string>>
  readonly exports: Readonly<Record<string, { readonly default: string } | string | null>>
}

/** The path of a module below `src`, without extension. */
const nameOf = (file: string): string => file.replace(/^\.\/dist\/(.*)\.js$/, "$1")

/** The entries that load each module. The target of a dynamic import is an entry. */
const loaders = (src: string, entries: ReadonlyArray<string>, context: ChunkingContext) => {
  const loadedBy = new Map<string, Set<string>>()
  const load = (entry: string, id: string): void => {
    const info = context.getModuleInfo(id)
    const known = loadedBy.get(id) ?? new Set()
    if (info === null || !id.startsWith(src) || known.has(entry)) return
    loadedBy.set(id, known.add(entry))
    // The lists are reused by the next `getModuleInfo`.
    const [next, later] = [[...info.importedIds], [...info.dynamicallyImportedIds]]
    for (const found of next) load(entry, found)
    for (const found of later) load(found, found)
  }
  for (const entry of entries) load(entry, entry)
  return loadedBy
}

/**
 * Names the chunk of each module. `indexes` only export, and `run` are started: they are files of their own. So is a
 * module that only one dynamic import loads.
 */
const chunksOf = (
  src: string,
  whole: string | undefined,
  indexes: ReadonlyArray<string>,
  run: ReadonlyArray<string>
) => {
  const compute = (context: ChunkingContext): ReadonlyMap<string, string> => {
    const groups = new Map<string, Array<string>>()
    for (const [id, entries] of loaders(src, [...indexes, ...run], context)) {
      const [only = ""] = entries.size === 1 ? entries : []
      if (indexes.includes(id) || run.includes(id) || (only !== "" && !indexes.includes(only))) continue
      const isJoined = whole !== undefined && entries.has(whole)
      const key = [...entries]
        .filter((entry) => !isJoined || entry === whole || run.includes(entry))
        .toSorted()
        .join("\n")
      groups.set(key, [...(groups.get(key) ?? []), id])
    }
    const names = new Map<string, string>()
    const taken = new Set<string>()
    for (const [key, members] of [...groups].toSorted(([a], [b]) => (a < b ? -1 : 1))) {
      // The folder of most of its modules.
      const folders = Map.groupBy(members, (id) => basename(dirname(id)))
      const [[folder] = [""]] = [...folders].toSorted(([, a], [, b]) => b.length - a.length)
      const wanted =
        key === (whole ?? join(src, "index.ts")) ? "main" : key.includes("\n") ? `${folder}-shared` : folder
      let name = wanted
      for (let n = 2; taken.has(name); n++) name = `${wanted}-${n}`
      taken.add(name)
      for (const id of members) names.set(id, name)
    }
    return names
  }
  let names: ReadonlyMap<string, string> | undefined
  return (id: string, context: ChunkingContext) => (names ??= compute(context)).get(id)
}

/** A public module is an entry that exports what its source exports. The source may export more to other chunks. */
const publicModules = (src: string): Plugin => ({
  name: "public-modules",
  resolveId: (id) => (id.startsWith("public:") ? id : undefined),
  load: (id) =>
    id.startsWith("public:")
      ? `export * from ${JSON.stringify(join(src, `${id.slice("public:".length)}.ts`))}`
      : undefined
})

/** The modules that an index of Effect exports as names, for example `Effect`. */
const modulesOf = (index: string): ReadonlySet<string> => {
  const text = readFileSync(fileURLToPath(import.meta.resolve(index)), "utf8")
  return new Set([...text.matchAll(/^export \* as (\w+) from "\.\/\1\.js";$/gm)].map(([, name = ""]) => name))
}

const indexesOfEffect = new Map<string, ReadonlySet<string>>()

/** The import of each module of Effect by its own path, on the same lines. */
const ownPaths = (all: string, list: string, index: string): string => {
  const modules = indexesOfEffect.get(index) ?? modulesOf(index)
  indexesOfEffect.set(index, modules)
  const imports = list.split(",").map((item) => {
    const [name = "", local = name] = item.trim().split(" as ")
    return modules.has(name)
      ? `import * as ${local} from "${index}/${name}"`
      : `import { ${item.trim()} } from "${index}"`
  })
  return imports.join("; ") + "\n".repeat(all.split("\n").length - 1)
}

const effectModules: Plugin = {
  name: "effect-modules",
  transform: (code, id) =>
    id.endsWith(".ts")
      ? {
          code: code.replaceAll(/^import \{([^}]*)\} from "(effect(?:\/[a-z-]+)?)"$/gm, ownPaths),
          // No lines move, so the source maps need no map of this step.
          map: null
        }
      : undefined
}

/** Replaces a file at once: a program that starts meanwhile reads the old one or the new one. */
const write = (file: string, text: string): void => {
  if (existsSync(file) && readFileSync(file, "utf8") === text) return
  mkdirSync(dirname(file), { recursive: true })
  writeFileSync(`${file}.${process.pid}`, text)
  renameSync(`${file}.${process.pid}`, file)
}

const bundle = async (folder: string): Promise<void> => {
  const src = join(root, folder, "src")
  const dist = join(root, folder, "dist")
  const pkg: Package = JSON.parse(readFileSync(join(root, folder, "package.json"), "utf8"))
  const sourceOf = (name: string): string => join(src, `${name}.ts`)
  const exported = Object.entries(pkg.exports).flatMap(([subpath, entry]) =>
    typeof entry === "object" && entry !== null ? [[subpath, nameOf(entry.default)] as const] : []
  )
  const whole = joined[folder]
  const run = [...Object.values(pkg.bin ?? {}), ...(started[folder] ?? [])].map(nameOf)
  // `failover/Chain` is public only because declarations name it, and is in the chunk of its index file.
  const indexes = exported.filter(([subpath]) => !/\/[A-Z]/.test(subpath)).map(([, name]) => sourceOf(name))
  const build = await rolldown({
    input: {
      ...Object.fromEntries(exported.map(([, name]) => [name, `public:${name}`])),
      ...Object.fromEntries(run.map((name) => [name, sourceOf(name)]))
    },
    external: (id) =>
      id.endsWith(".json") || !(id.startsWith("public:") || id.startsWith(".") || isAbsolute(id)),
    platform: "node",
    cwd: join(root, folder),
    plugins: [publicModules(src), effectModules],
    preserveEntrySignatures: "allow-extension",
    treeshake: { moduleSideEffects: "no-external" }
  })
  const { output } = await build.generate({
    format: "es",
    sourcemap: true,
    sourcemapExcludeSources: true,
    entryFileNames: "[name].js",
    chunkFileNames: "chunks/[name].js",
    minify: false,
    minifyInternalExports: false,
    comments: { jsdoc: false },
    codeSplitting: {
      includeDependenciesRecursively: false,
      groups: [
        {
          debugName: "entries",
          name: chunksOf(src, whole === undefined ? undefined : sourceOf(whole), indexes, run.map(sourceOf))
        }
      ]
    }
  })
  await build.close()
  for (const file of output) {
    if (file.type === "chunk" && file.imports.includes("effect"))
      throw new Error(
        `${folder}: ${file.fileName} imports a function from the index of effect. Import its module.`
      )
  }
  for (const file of output)
    write(join(dist, file.fileName), file.type === "chunk" ? file.code : String(file.source))
  const written = new Set(output.map(({ fileName }) => fileName))
  for (const file of globSync("**/*.{js,js.map,d.ts,d.ts.map}", { cwd: dist })) {
    const isKept = /\.js(?:\.map)?$/.test(file)
      ? written.has(file)
      : existsSync(sourceOf(file.replace(/\.d\.ts(?:\.map)?$/, "")))
    if (!isKept) rmSync(join(dist, file))
  }
}

await Promise.all(globSync("*", { cwd: root }).toSorted().map(bundle))
