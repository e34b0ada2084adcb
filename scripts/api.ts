/**
 * Writes the API report of each package, `api/NAME.api.md`: the declarations of its public modules without comments.
 * With `--check` it fails if a report differs from the code. Needs built packages: `npm run api` builds them.
 */
import { existsSync, globSync, mkdirSync, readFileSync, writeFileSync } from "node:fs"
import { basename, dirname, join } from "node:path"

const root = join(import.meta.dirname, "..")
const isCheck = process.argv.includes("--check")

interface Package {
  readonly name: string
  readonly exports: Readonly<Record<string, { readonly types: string } | string | null>>
}

/** Removes comments by pattern, which works because declarations contain no strings that look like comments. */
const textOf = (file: string): string =>
  readFileSync(file, "utf8")
    .replaceAll(/^[ \t]*\/\*\*[\s\S]*?\*\/\n?|^\/\/.*$/gm, "")
    .replaceAll(/^\s*\n/gm, "")
    .trim()

/** Returns the declarations of a module, and those of the modules that are not public and that it exports from. */
const declarations = (file: string, isPublic: (file: string) => boolean): string => {
  const text = textOf(file)
  const inner = [...text.matchAll(/^export (?:type )?\{[^}]*\} from "(\.[^"]+)";$/gm)]
    .map(([, path = ""]) => join(dirname(file), path.replace(/\.[jt]s$/, ".d.ts")))
    .filter((path) => !isPublic(path))
  const others = [...new Set(inner)].map((path) => `// ${basename(path)}\n${declarations(path, isPublic)}`)
  return [text, ...others].join("\n")
}

for (const folder of globSync("packages/*", { cwd: root }).toSorted()) {
  const pkg: Package = JSON.parse(readFileSync(join(root, folder, "package.json"), "utf8"))
  const types = Object.values(pkg.exports).map((entry) =>
    typeof entry === "object" && entry !== null ? join(root, folder, entry.types) : ""
  )
  const isPublic = (file: string): boolean => types.includes(file)
  const sections = Object.entries(pkg.exports).flatMap(([subpath, entry]) =>
    typeof entry === "object" && entry !== null
      ? [
          `## ${join(pkg.name, subpath)}\n\n\`\`\`ts\n${declarations(join(root, folder, entry.types), isPublic)}\n\`\`\`\n`
        ]
      : []
  )
  if (sections.length === 0) continue
  const report = `# API of ${pkg.name}\n\nWritten by \`npm run api\`.\n\n${sections.join("\n")}`
  const file = join(root, "api", `${folder.slice("packages/".length)}.api.md`)
  if (existsSync(file) && readFileSync(file, "utf8") === report) continue
  if (isCheck) {
    console.error(
      `${file.slice(root.length + 1)} is not the API of ${pkg.name}: run \`npm run api\` and commit it.`
    )
    process.exitCode = 1
  } else {
    mkdirSync(join(root, "api"), { recursive: true })
    writeFileSync(file, report)
  }
}
