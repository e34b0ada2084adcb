/** The colours of what the demo prints. */

/** ANSI colours, or none. */
export interface Paint {
  readonly dim: (text: string) => string
  readonly good: (text: string) => string
  readonly bad: (text: string) => string
  readonly strong: (text: string) => string
}

const code = (n: number) => (text: string) => `\u001b[${n}m${text}\u001b[0m`
export const plain = (text: string): string => text

const coloured: Paint = { dim: code(2), good: code(32), bad: code(31), strong: code(1) }
const uncoloured: Paint = { dim: plain, good: plain, bad: plain, strong: plain }

/** Colours for a terminal, unless the environment turns them off. */
export const paintFor = (isTerminal: boolean, noColor: string | undefined): Paint =>
  isTerminal && (noColor === undefined || noColor === "") ? coloured : uncoloured
