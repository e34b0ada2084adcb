/**
 * A table of what an API refuses: each row is one rule with a name, checked in order.
 */
export interface Rule<in Input, out Problem> {
  /** Unique in its table; a recorded request that was refused names it. */
  readonly name: string
  /** Reports about the real API disagree: only applied by a strict server. Default `false`. */
  readonly disputed?: boolean
  /** What is wrong, or `undefined`. */
  readonly check: (input: Input) => Problem | undefined
}

/** The first rule that the input breaks. */
export const firstBroken = <Input, Problem>(
  rules: ReadonlyArray<Rule<Input, Problem>>,
  input: Input,
  strict: boolean
): { readonly rule: string; readonly problem: Problem } | undefined => {
  for (const { name, disputed = false, check } of rules) {
    const problem = disputed && !strict ? undefined : check(input)
    if (problem !== undefined) return { rule: name, problem }
  }
  return undefined
}

/** The first defined result. */
export const firstOf = <A, B>(
  items: Iterable<A>,
  find: (item: A, index: number) => B | undefined
): B | undefined => {
  let index = 0
  for (const item of items) {
    const found = find(item, index++)
    if (found !== undefined) return found
  }
  return undefined
}

/** The first value that stands twice. */
export const duplicate = (values: Iterable<string>): string | undefined => {
  const seen = new Set<string>()
  return firstOf(values, (value) => (seen.size === seen.add(value).size ? value : undefined))
}
