//! Texts to index: a hundred words each, with a realistic mix of common and rare words. The same in every run.

use serde_json::json;
use windlass_core::entity::Fields;

const COMMON: &str = "the of and to in is for that with as on by at from are was this be it an or which can not have has their \
    its also more other been were will one all new two may used time use than about these system first into most such many \
    some only between over after where during under both each data work state part high number water world year form life \
    public place small large group case system order field study power local result level point early house value long";

const TELLING: &str = "engine garden bicycle kettle mountain river violin harbour winter summer leather cotton silver copper \
    glass marble wooden plastic electric solar battery camera lens telescope planet galaxy orbit satellite rocket wing \
    aircraft turbine pump valve boiler furnace bakery bread butter cheese coffee tea sugar pepper salmon trout forest oak \
    maple cedar meadow tractor harvest wheat barley vineyard wine brewery museum gallery painting sculpture theatre opera \
    orchestra trumpet guitar piano festival library archive manuscript journal printer keyboard monitor laptop server \
    network router cable antenna radio television satellite market auction invoice payment budget insurance mortgage \
    lawyer court judge verdict contract licence patent doctor nurse surgery vaccine virus protein enzyme molecule crystal \
    magnet laser microscope chemistry physics algebra geometry statistics survey census election senate parliament mayor \
    bridge tunnel railway station tram airport runway luggage passport hotel restaurant kitchen bedroom sofa carpet curtain \
    window roof chimney ladder hammer screwdriver drill saw nail paint brush jacket trousers shirt shoe glove umbrella \
    backpack tent campfire compass map trail glacier volcano desert island lagoon coral whale dolphin eagle falcon sparrow";

/// A small deterministic generator.
pub(super) struct Texts {
    state: u64,
    common: Vec<&'static str>,
    telling: Vec<&'static str>,
}

impl Texts {
    pub(super) fn new(seed: u64) -> Texts {
        let state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        Texts {
            state,
            common: COMMON.split_whitespace().collect(),
            telling: TELLING.split_whitespace().collect(),
        }
    }

    fn next(&mut self) -> u64 {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        self.state
    }

    /// Squaring makes the first words of a list far more frequent than the last.
    fn add_word(&mut self, text: &mut String) {
        let telling = self.next().is_multiple_of(3);
        let unit = (self.next() >> 11) as f64 / (1u64 << 53) as f64;
        let numbered = self.next().is_multiple_of(25);
        let list = if telling { &self.telling } else { &self.common };
        text.push_str(list[(unit * unit * list.len() as f64) as usize]);
        if numbered {
            text.push_str(&(self.next() % 2_000).to_string());
        }
    }

    fn words(&mut self, count: usize) -> String {
        let mut text = String::with_capacity(count * 8);
        for n in 0..count {
            if n > 0 {
                text.push(' ');
            }
            self.add_word(&mut text);
        }
        text
    }

    pub(super) fn document(&mut self, n: u64) -> Fields {
        let fields =
            json!({"title": self.words(6), "text": self.words(94), "group": n % 10, "price": n % 1_000});
        fields.as_object().cloned().unwrap_or_default()
    }

    pub(super) fn query(&mut self) -> String {
        let count = 2 + (self.next() % 5) as usize;
        self.words(count)
    }
}
