/** Prints the findings of doctor, as one JSON object or as text. Pure. */
import type { Check } from "./Checks.ts"
import type * as Keys from "./Keys.ts"
import type { NodeVersion } from "./NodeVersion.ts"
import type { Offer } from "./Offer.ts"
import type { Problem } from "./Problem.ts"

/** The output of `--json`. */
export interface Report {
  readonly node: NodeVersion
  readonly providers: ReadonlyArray<Keys.Examined>
  /** Tools and extensions, in the order of the files and of their contents. */
  readonly tools: ReadonlyArray<Offer & { readonly file: string }>
  /** Everything that was examined, what is fine and what is not. */
  readonly checks: ReadonlyArray<Check>
  /** What is not fine. */
  readonly problems: ReadonlyArray<Problem>
}

/** True when there is no error. */
export const isSound = ({ problems }: Report): boolean => problems.every(({ level }) => level !== "error")

export const lines = ({ node, providers, tools, checks, problems }: Report): ReadonlyArray<string> => [
  `Node ${node.version}, needed is ${node.needed}.`,
  "",
  "Providers",
  ...providers.map((provider) => `  ${provider.provider.padEnd(width)}  ${keysOf(provider)}`),
  ...Object.entries(Object.groupBy(tools, ({ file }) => file)).flatMap(([file, offers = []]) => [
    "",
    file,
    ...offers.map(({ name, reason }) =>
      reason === null ? `  offered  ${name}` : `  skipped  ${name}: ${reason}`
    )
  ]),
  "",
  "Fine",
  ...checks
    .filter(({ level, area }) => level === "ok" && area !== "tools")
    .map(
      ({ area, file, message }) => `  ${area.padEnd(areas)}  ${file === null ? "" : `${file}: `}${message}`
    ),
  "",
  ...(problems.length === 0 ? ["No problems."] : ["Problems", ...problems.map(problemLine)])
]

/** Length of the longest provider name, in characters. */
const width = 17

/** Length of the longest name of an area, in characters. */
const areas = "configuration".length

const keysOf = ({ keys }: Keys.Examined): string =>
  keys.length === 0
    ? "needs no key unless you name one"
    : keys.map(({ name, set }) => `${name} is ${set ? "set" : "not set"}`).join(", ")

const problemLine = ({ level, file, message }: Problem): string =>
  `  ${level.padEnd("warning".length)}  ${file === null ? "" : `${file}: `}${message}`
