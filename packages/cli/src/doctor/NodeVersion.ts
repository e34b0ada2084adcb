/** Checks that this Node is new enough. Pure. */
import type { Problem } from "./Problem.ts"
import * as Problems from "./Problem.ts"

/**
 * The running version, and the version that the packages need (`engines` in package.json): a range such as `>=24` or
 * `>=24.1.2`.
 */
export interface Versions {
  readonly version: string
  readonly needed: string
}

export interface NodeVersion extends Versions {
  readonly ok: boolean
}

export const of = ({ version, needed }: Versions): NodeVersion => {
  const [is, least] = [partsOf(version), partsOf(needed)]
  // The first different part decides. Parts that the range leaves out are 0.
  const differing = [0, 1, 2].find((at) => (is[at] ?? 0) !== (least[at] ?? 0))
  return { version, needed, ok: differing === undefined || (is[differing] ?? 0) > (least[differing] ?? 0) }
}

const partsOf = (text: string): ReadonlyArray<number> => (text.match(/\d+/g) ?? []).map(Number)

export const problems = ({ version, needed, ok }: NodeVersion): ReadonlyArray<Problem> =>
  ok
    ? []
    : [Problems.error(null, `Node ${version} is too old: the packages need ${needed}. Install a newer Node.`)]
