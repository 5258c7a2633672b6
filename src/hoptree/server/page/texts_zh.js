export const ZH = {};
