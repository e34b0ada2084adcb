/** Notes of one call for the agent run that made it: what its recovery did. `CallReport` writes them. */
export class CallNotes {
  /** The output limit was raised to this, in tokens. */
  raisedTo: number | undefined
  /** Number of continuations of a cut answer. */
  continued = 0
  /** True when a cut answer was delivered because its continuations added too little. */
  diminished = false
  /** Images and files that were replaced with a note. */
  mediaDropped = 0
}
