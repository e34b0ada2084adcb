/**
 * Writes the `exports` of each package. With `--check`, reports wrong ones instead.
 *
 * The exports of index files are public: `src/index.ts` as the package, `src/LAYER/index.ts` and other lower-case files
 * of `src` as subpaths. Each module that they name also has its own path, `LAYER/Module`: TypeScript names an inferred
 * type by the path of its module, so a library with `declaration: true` needs one. Everything else is closed.
 */
import { existsSync, readdirSync, readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"

const root = join(import.meta.dirname, "..", "packages")
const isCheck = process.argv.includes("--check")

interface Entry {
  readonly "@outlast/source": string
  readonly types: string
  readonly default: string
}

const entry = (path: string): Entry => ({
  "@outlast/source": `./src/${path}.ts`,
  types: `./dist/${path}.d.ts`,
  default: `./dist/${path}.js`
})

/** The modules in an index file, by their exported names. Paths are relative to `src`, without extension. */
const modulesOf = (src: string, index: string): ReadonlyArray<readonly [name: string, path: string]> => {
  const folder = index.includes("/") ? index.slice(0, index.lastIndexOf("/")) : ""
  const text = readFileSync(join(src, `${index}.ts`), "utf8")
  return [...text.matchAll(/^export \* as (\w+) from "([^"]+)\.ts"$/gm)].map(([, name = "", path = ""]) => [
    name,
    join(folder, path)
  ])
}

/** Index files beside `index`, by subpath. */
const subpathsOf = (src: string): ReadonlyArray<readonly [subpath: string, index: string]> =>
  readdirSync(src, { withFileTypes: true })
    .toSorted((a, b) => (a.name < b.name ? -1 : 1))
    .flatMap((found): ReadonlyArray<readonly [string, string]> => {
      const name = found.name.replace(/\.ts$/, "")
      if (found.isDirectory()) {
        return existsSync(join(src, name, "index.ts")) ? [[name, `${name}/index`]] : []
      }
      const isIndex = name !== "index" && modulesOf(src, name).length > 0 && /^[a-z]/.test(name)
      return isIndex ? [[name, name]] : []
    })

const exportsOf = (src: string): Record<string, string | Entry | null> => {
  const subpaths = subpathsOf(src)
  const layers = subpaths.flatMap(([subpath, index]) =>
    modulesOf(src, index).map(([name, path]) => [`./${subpath}/${name}`, path] as const)
  )
  const known = new Set(layers.map(([, path]) => path))
  const own = modulesOf(src, "index").flatMap(([, path]) =>
    known.has(path) ? [] : ([[`./${path}`, path]] as const)
  )
  return {
    "./package.json": "./package.json",
    ".": entry("index"),
    ...Object.fromEntries(subpaths.map(([subpath, index]) => [`./${subpath}`, entry(index)])),
    ...Object.fromEntries([...layers, ...own].toSorted().map(([subpath, path]) => [subpath, entry(path)])),
    "./*": null
  }
}

for (const name of readdirSync(root).toSorted()) {
  const src = join(root, name, "src")
  const file = join(root, name, "package.json")
  const before = readFileSync(file, "utf8")
  const pkg: Record<string, unknown> = JSON.parse(before)
  // For tests only. Without the condition they fail: public names would then come from `dist`.
  const imports = { [`#${name}/*`]: { "@outlast/source": "./src/*.ts" } }
  const exports = existsSync(join(src, "index.ts"))
    ? exportsOf(src)
    : { "./package.json": "./package.json", "./*": null }
  const rest = Object.entries(pkg).filter(([key]) => key !== "imports")
  const next = Object.fromEntries(
    rest.flatMap(([key, value]) =>
      key === "exports"
        ? [
            ["imports", imports],
            ["exports", exports]
          ]
        : [[key, value]]
    )
  )
  const after = `${JSON.stringify(next, undefined, 2)}\n`
  if (JSON.stringify(JSON.parse(before)) === JSON.stringify(next)) continue
  if (isCheck) {
    console.error(
      `packages/${name}/package.json: its exports are not what its index files name; run \`npm run exports\`.`
    )
    process.exitCode = 1
  } else {
    writeFileSync(file, after)
    console.log(`packages/${name}/package.json: ${Object.keys(exports).length} exports`)
  }
}
