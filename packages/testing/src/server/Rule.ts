/** A table of the requests that an API refuses. Each row is one named rule; rules are checked in order. */
export interface Rule<in Input, out Problem> {
  /** Unique in the table. A recorded request that was refused names its rule. */
  readonly name: string
  /** True when reports about the real API disagree. Such a rule applies only on a strict server. Default: false. */
  readonly disputed?: boolean
  /** Returns the problem, or `undefined`. */
  readonly check: (input: Input) => Problem | undefined
}

/** Returns the first rule that the input breaks. */
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

/** Returns the first defined result. */
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

/** Returns the first value that occurs twice. */
export const duplicate = (values: Iterable<string>): string | undefined => {
  const seen = new Set<string>()
  return firstOf(values, (value) => (seen.size === seen.add(value).size ? value : undefined))
}
