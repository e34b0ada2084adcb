/**
 * Classifies a tool: by its annotations, then by the host's options, then by the verb in its name. Pure.
 *
 * **What it does not do.** It does not read arguments, so a shell has no nature.
 */
/** `read` changes nothing, `act` changes something, `pause` lets time pass and is not counted. */
export type ToolNature = "read" | "act" | "pause"

/** Hints of MCP. `Tool.Readonly`, `Tool.Idempotent` and `Tool.Destructive` of effect/ai are equivalent. */
export interface Hints {
  readonly readOnlyHint?: boolean | undefined
  /** Repeating the same call changes nothing more. */
  readonly idempotentHint?: boolean | undefined
  readonly destructiveHint?: boolean | undefined
}

const verbs = (list: string): ReadonlySet<string> => new Set(list.split(" "))

const reads = verbs(
  "read get list ls grep search find view cat show describe fetch query lookup inspect check status"
)
const acts = verbs(
  "write edit create delete update set add remove replace insert send post put patch move run execute apply"
)
export const pauses = verbs("sleep wait pause delay")

/** The nature by annotations. */
export const ofHints = ({ readOnlyHint, destructiveHint }: Hints): ToolNature | undefined =>
  readOnlyHint === true ? "read" : readOnlyHint === false || destructiveHint === true ? "act" : undefined

/**
 * The nature by the name of a tool (`readFile`, `fs.read_file`). A verb such as `write` decides nothing: `run_tests`
 * may only read.
 */
export const ofName = (tool: string): ToolNature | undefined => {
  const words = tool
    .slice(0, maxName)
    .replace(/([a-z])([A-Z])/g, "$1 $2")
    .toLowerCase()
    .split(/[^a-z]+/)
  if (words.some((word) => acts.has(word))) return undefined
  if (words.some((word) => pauses.has(word))) return "pause"
  return words.some((word) => reads.has(word)) ? "read" : undefined
}

/** Number of characters of a name that are read. */
const maxName = 200
