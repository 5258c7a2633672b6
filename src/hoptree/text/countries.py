"""Countries with the words for their people and their other names, past countries among them."""

from __future__ import annotations

_TABLE = """
afghanistan: afghan, afghani, afghans
albania: albanian
algeria: algerian
andorra: andorran
angola: angolan
antigua and barbuda: antiguan
argentina: argentine, argentinian, argentinean, argentines
armenia: armenian
australia: new south wales, australian
austria: austrian
azerbaijan: azerbaijani, azeri
bahamas: bahamian, the bahamas
bahrain: bahraini
bangladesh: bangladeshi
barbados: barbadian, bajan
belarus: belarusian, belorussian, byelorussian
belgium: belgian
belize: belizean
benin: beninese, dahomey
bhutan: bhutanese
bolivia: bolivian
bosnia and herzegovina: bosnian, bosnia, herzegovinian, bosnia-herzegovina
botswana: botswanan, motswana
brazil: brazilian, brasil
brunei: bruneian
bulgaria: bulgarian
burkina faso: burkinabe, burkinabé, upper volta
burundi: burundian
cambodia: cambodian, khmer, kampuchea
cameroon: cameroonian
canada: british columbia, canadian, canadians
cape verde: cape verdean, cabo verde
central african republic: central african
chad: chadian
chile: chilean
china: chinese, people's republic of china, prc, mainland china
colombia: colombian
comoros: comorian
congo: congolese, republic of the congo
democratic republic of the congo: dr congo, drc, zaire, zairian, zairean
costa rica: costa rican
croatia: croatian, croat
cuba: cuban
cyprus: cypriot
czech republic: czech, czechia
denmark: danish, dane, danes
djibouti: djiboutian
dominica: dominican from dominica
dominican republic: dominican
east timor: timorese, timor-leste
ecuador: ecuadorian, ecuadorean
egypt: egyptian
el salvador: salvadoran, salvadorian
equatorial guinea: equatoguinean
eritrea: eritrean
estonia: estonian
eswatini: swazi, swaziland
ethiopia: ethiopian
fiji: fijian
finland: finnish, finn, finns
france: french, frenchman, frenchwoman, french republic
gabon: gabonese
gambia: gambian, the gambia
georgia: georgian
germany: german, germans, federal republic of germany
ghana: ghanaian
greece: greek, hellenic, greeks
grenada: grenadian
guatemala: guatemalan
guinea: guinean
guinea-bissau: bissau-guinean
guyana: guyanese
haiti: haitian
honduras: honduran
hong kong: hongkonger, hongkongese
hungary: hungarian, magyar
iceland: icelandic, icelander
india: indian, indians, republic of india
indonesia: indonesian
iran: iranian, persian, persia, islamic republic of iran
iraq: iraqi
ireland: irish, republic of ireland, irishman, irishwoman, irish free state
israel: israeli
italy: italian, italians
ivory coast: ivorian, côte d'ivoire, cote d'ivoire
jamaica: jamaican
japan: japanese
jordan: jordanian
kazakhstan: kazakh, kazakhstani
kenya: kenyan
kosovo: kosovar, kosovan
kuwait: kuwaiti
kyrgyzstan: kyrgyz, kyrgyzstani
laos: laotian, lao
latvia: latvian
lebanon: lebanese
lesotho: basotho, mosotho
liberia: liberian
libya: libyan
liechtenstein: liechtensteiner
lithuania: lithuanian
luxembourg: luxembourgish, luxembourger
madagascar: malagasy, madagascan
malawi: malawian
malaysia: malaysian
maldives: maldivian
mali: malian
malta: maltese
marshall islands: marshallese
mauritania: mauritanian
mauritius: mauritian
mexico: mexican, mexicans
micronesia: micronesian
moldova: moldovan
monaco: monegasque, monégasque
mongolia: mongolian
montenegro: montenegrin
morocco: moroccan
mozambique: mozambican
myanmar: burmese, burma
namibia: namibian
nauru: nauruan
nepal: nepalese, nepali
netherlands: dutch, dutchman, holland, the netherlands, kingdom of the netherlands
new zealand: new zealander, kiwi
nicaragua: nicaraguan
niger: nigerien
nigeria: nigerian
north korea: north korean, democratic people's republic of korea, dprk
north macedonia: macedonian, macedonia, republic of macedonia
norway: norwegian
oman: omani
pakistan: pakistani
palau: palauan
palestine: palestinian, state of palestine
panama: panamanian
papua new guinea: papua new guinean
paraguay: paraguayan
peru: peruvian
philippines: filipino, filipina, philippine, the philippines, pilipino
poland: polish, pole, poles
portugal: portuguese
puerto rico: puerto rican
qatar: qatari
romania: romanian, rumanian
russia: russian, russian federation, russians
rwanda: rwandan
saint lucia: saint lucian
samoa: samoan
san marino: sammarinese
saudi arabia: saudi, saudi arabian
senegal: senegalese
serbia: serbian, serb
seychelles: seychellois
sierra leone: sierra leonean
singapore: singaporean
slovakia: slovak, slovakian
slovenia: slovenian, slovene
solomon islands: solomon islander
somalia: somali, somalian
south africa: south african
south korea: south korean, republic of korea, rok, korean, korea
south sudan: south sudanese
spain: spanish, spaniard, spaniards
sri lanka: sri lankan, ceylon, ceylonese
sudan: sudanese
suriname: surinamese, surinam
sweden: swedish, swede, swedes
switzerland: swiss
syria: syrian
taiwan: taiwanese, republic of china, roc
tajikistan: tajik, tajikistani
tanzania: tanzanian, tanganyika
thailand: thai, siam, siamese
togo: togolese
tonga: tongan
trinidad and tobago: trinidadian, tobagonian, trinidad
tunisia: tunisian
turkey: turkish, turk, türkiye, turks
turkmenistan: turkmen
uganda: ugandan
ukraine: ukrainian
united arab emirates: emirati, uae, u.a.e.
united kingdom: british, uk, u.k., great britain, britain, briton, england, english, englishman, englishwoman, scotland,
 scottish, scot, wales, welsh, northern ireland, northern irish, united kingdom of great britain and ireland
united states: american, usa, u.s.a., us, u.s., united states of america, america, americans, the united states, the us,
 new mexico, new mexican, new england, american samoa, native american
uruguay: uruguayan
uzbekistan: uzbek, uzbekistani
vanuatu: ni-vanuatu
vatican city: vatican, holy see
venezuela: venezuelan
vietnam: vietnamese, viet nam
yemen: yemeni
zambia: zambian, northern rhodesia
zimbabwe: zimbabwean, rhodesia, rhodesian
soviet union: soviet, ussr, u.s.s.r.
russian empire: imperial russia
west germany: west german
east germany: east german, german democratic republic, gdr
nazi germany: third reich
german empire: imperial germany
weimar republic: weimar germany
prussia: prussian, kingdom of prussia
czechoslovakia: czechoslovak, czechoslovakian
yugoslavia: yugoslav, yugoslavian
serbia and montenegro: serbian-montenegrin
austria-hungary: austro-hungarian, austro-hungarian empire
austrian empire: habsburg empire
ottoman empire: ottoman
british india: british raj
kingdom of great britain: kingdom of england
qing dynasty: qing, qing china, qing empire
empire of japan: imperial japan
kingdom of italy: italian kingdom
south vietnam: south vietnamese
north vietnam: north vietnamese
byzantine empire: byzantine
roman empire: ancient rome
latin america: latin american, south america, south american, central america, central american
north america: north american
"""

_SUCCESSORS = """
soviet union: russia, ukraine, belarus, georgia, armenia, azerbaijan, kazakhstan, uzbekistan, lithuania, latvia,
 estonia, moldova, kyrgyzstan, tajikistan, turkmenistan, russian empire
russian empire: russia, ukraine, poland, finland, belarus, georgia, armenia, lithuania, latvia, estonia
west germany: germany, east germany
east germany: germany
nazi germany: germany, west germany, east germany
german empire: germany, prussia, nazi germany
weimar republic: germany, nazi germany, german empire
prussia: germany, poland
czechoslovakia: czech republic, slovakia
yugoslavia: serbia, croatia, slovenia, bosnia and herzegovina, north macedonia, montenegro, kosovo,
 serbia and montenegro
serbia and montenegro: serbia, montenegro
austria-hungary: austria, hungary, czech republic, slovakia, croatia, slovenia, austrian empire, czechoslovakia
austrian empire: austria, hungary
ottoman empire: turkey, greece, egypt, syria, lebanon
british india: india, pakistan, bangladesh, myanmar, united kingdom
kingdom of great britain: united kingdom
qing dynasty: china, taiwan
empire of japan: japan
kingdom of italy: italy
south vietnam: vietnam, north vietnam
north vietnam: vietnam
byzantine empire: greece, turkey
roman empire: italy
china: hong kong, taiwan
puerto rico: united states
north korea: south korea
congo: democratic republic of the congo
dominica: dominican republic
ireland: united kingdom
"""


def _rows(table: str) -> list[tuple[str, list[str]]]:
    lines = table.strip().replace("\n ", " ").splitlines()
    pairs = (line.split(": ", 1) for line in lines)
    return [(name, [word.strip() for word in words.split(",")]) for name, words in pairs]


COUNTRY_OF: dict[str, str] = {
    spelling: name for name, words in _rows(_TABLE) for word in (name, *words) for spelling in (word, word.rstrip("."))
}
"""From a country's name, other name or demonym, in lower case, to one name for it."""

REGIONS = frozenset(("latin america", "north america"))
"""Names in the table that stand for no single country."""

SUCCESSORS: frozenset[frozenset[str]] = frozenset(
    frozenset((name, word)) for name, words in _rows(_SUCCESSORS) for word in words
)
"""Pairs of countries of which it cannot be told by name alone whether a person means the same one."""
