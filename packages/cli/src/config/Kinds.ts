/** The kinds of settings, by name. */
export const kinds = ["outlast", "gateway", "decision037"] as const
export type Kind = (typeof kinds)[number]
