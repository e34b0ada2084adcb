/** What npm shows of a package, and what users need of it: each package has all of it. Part of `npm run publint`. */
import { existsSync, readFileSync } from "node:fs"
import { join } from "node:path"

const root = join(import.meta.dirname, "..")

interface Manifest {
  readonly name?: string
  readonly description?: string
  readonly keywords?: ReadonlyArray<string>
  readonly license?: string
  readonly homepage?: string
  readonly bugs?: string
  readonly repository?: { readonly url?: string; readonly directory?: string }
  readonly engines?: { readonly node?: string }
  readonly peerDependencies?: Readonly<Record<string, string>>
  readonly peerDependenciesMeta?: Readonly<Record<string, { readonly optional?: boolean }>>
}

const read = (folder: string): Manifest =>
  JSON.parse(readFileSync(join(root, folder, "package.json"), "utf8"))

/** Words of a README at most. That of `ai-sdk` is all that a user of the AI SDK has to read. */
const maxWordsOf = (folder: string): number => (folder === "packages/ai-sdk" ? 650 : 150)

/** What users install beside a package. */
const besideOf = (folder: string): string => (folder === "packages/ai-sdk" ? "ai" : "effect")

/** The problems of the package in a folder such as `packages/agent`. */
export const problemsOf = (folder: string): ReadonlyArray<string> => {
  const pkg = read(folder)
  const { repository } = read(".")
  const problems: Array<string> = []
  const need = (holds: boolean, text: string): void => {
    if (!holds) problems.push(text)
  }
  need((pkg.description ?? "") !== "", "package.json has no description.")
  need((pkg.keywords ?? []).length > 0, "package.json has no keywords.")
  need((pkg.license ?? "") !== "", "package.json has no license.")
  need(
    repository?.url !== undefined && pkg.repository?.url === repository.url,
    `repository.url of package.json must be ${repository?.url}, as in the package.json of the root.`
  )
  need(pkg.repository?.directory === folder, `repository.directory of package.json must be ${folder}.`)
  const site = repository?.url?.replace(/^git\+/, "").replace(/\.git$/, "")
  need(
    pkg.homepage === `${site}/tree/main/${folder}#readme`,
    `homepage of package.json must be ${site}/tree/main/${folder}#readme.`
  )
  need(pkg.bugs === `${site}/issues`, `bugs of package.json must be ${site}/issues.`)
  need(
    /^>=\d+(?:\.\d+)*$/.test(pkg.engines?.node ?? ""),
    "engines.node of package.json must be a lowest version, such as >=22."
  )
  for (const peer of Object.keys(pkg.peerDependencies ?? {})) {
    const isOptional = pkg.peerDependenciesMeta?.[peer]?.optional === true
    need(
      peer === besideOf(folder) || isOptional,
      `The peer ${peer} must be optional, or a dependency: users install only ${besideOf(folder)} beside it.`
    )
  }
  for (const file of ["README.md", "CHANGELOG.md", "LICENSE"])
    need(existsSync(join(root, folder, file)), `${file} is missing.`)
  if (!existsSync(join(root, folder, "README.md"))) return problems
  const readme = readFileSync(join(root, folder, "README.md"), "utf8")
  const words = readme.split(/\s+/).filter((word) => /\w/.test(word)).length
  const maxWords = maxWordsOf(folder)
  need(words <= maxWords, `README.md has ${words} words, and ${maxWords} are allowed.`)
  need(readme.startsWith(`# ${pkg.name}\n`), `README.md must begin with # ${pkg.name}.`)
  need(
    readme.includes(`npm install ${pkg.name} `) ||
      readme.includes(`npm install --save-dev ${pkg.name} `) ||
      readme.includes(`npx ${pkg.name} `),
    `README.md has no line that installs ${pkg.name}.`
  )
  need(/\]\(https:\/\//.test(readme), "README.md has no links.")
  return problems
}
